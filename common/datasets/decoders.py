"""All decoders by the name that the registry uses, which is that of the function."""

from common.datasets.decoding import cifar_png, cifar_python, plain
from common.datasets.graph_decoding import adjacency_text, counted_edges, edge_text, graph_tool, tu_text
from common.datasets.image_collections import cifar100_differences, cifar100_python, tiny_imagenet
from common.datasets.text_collections import movie_reviews_csv, paraphrase_text, sentiment_table

_IMAGES = (cifar_png, cifar_python, cifar100_differences, cifar100_python, tiny_imagenet)
_TEXTS = (movie_reviews_csv, paraphrase_text, sentiment_table)
_GRAPHS = (adjacency_text, counted_edges, edge_text, graph_tool, tu_text)
DECODERS = {decoder.__name__: decoder for decoder in (plain, *_IMAGES, *_TEXTS, *_GRAPHS)}
