"""Names and colours of the rules that perturb weights."""

from common.figures import PALETTE

RULES = {"plain": "no noise", "nso": "NSO (both sides)", "wp_sgd": "WP-SGD (one side)"}
COLOURS = dict(zip(RULES, (PALETTE[5], PALETTE[0], PALETTE[1]), strict=True))
