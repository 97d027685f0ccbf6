"""What models, bounds, graphs and norms are called on figures, and how they are drawn."""

from common.figures import MARKERS, PALETTE

MODELS = {"gcn": "GCN", "mpnn": "MPNN"}
SERIES = {  # name: (label, colour, marker)
    "garg": ("Garg et al.", PALETTE[1], MARKERS[2]),
    "liao": ("Liao et al.", PALETTE[4], MARKERS[1]),
    "ours": ("eq. (12)", PALETTE[0], MARKERS[0]),
    "trace": ("$\\sqrt{C\\,\\mathrm{Tr}H\\,\\|v\\|^2/N}$", PALETTE[3], MARKERS[4]),
    "hessian": ("$\\sum\\sqrt{C\\,v^T H v/N}$", PALETTE[3], MARKERS[3]),
    "gap": ("measured gap", PALETTE[2], MARKERS[5]),
}
GRAPHS = {
    "star": "star",
    "path": "path",
    "regular": "regular (ring lattice)",
    "erdos_renyi": "Erdős–Rényi",
    "barabasi_albert": "Barabási–Albert",
    "block_model": "block model",
    "ensemble": "random ensemble",
    "mutag": "MUTAG",
    "hep_th": "hep-th network",
    "imdb_binary": "IMDB-BINARY",
    "imdb_multi": "IMDB-MULTI",
    "ca_grqc": "ca-GrQc",
    "ca_hepth": "ca-HepTh",
    "email_enron": "email-Enron",
    "newman_astro_ph": "astro-ph",
    "newman_cond_mat": "cond-mat",
    "newman_hep_th": "hep-th",
    "pgp": "PGP",
    "ego_facebook": "ego-Facebook",
    "ca_condmat": "ca-CondMat",
}
NORMS = {
    "adjacency_norm": "$\\|A\\|_2$",
    "walk_norm": "$\\|D^{-1}A\\|_2$",
    "normalised_norm": "$\\|D^{-1/2}AD^{-1/2}\\|_2$",
}
