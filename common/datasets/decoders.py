"""All decoders by the name that the registry uses."""

from common.datasets.decoding import DECODERS as IMAGE_DECODERS
from common.datasets.graph_decoding import GRAPH_DECODERS
from common.datasets.image_collections import COLLECTION_DECODERS
from common.datasets.text_collections import TEXT_DECODERS

DECODERS = {**IMAGE_DECODERS, **COLLECTION_DECODERS, **TEXT_DECODERS, **GRAPH_DECODERS}
