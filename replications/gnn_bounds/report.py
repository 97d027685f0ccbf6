# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# How much of a generalisation bound comes from the graph? For a graph network of $l$ layers,
#
# $$H^{(t)} = \phi\big(X U^{(t)} + \rho(P\, \psi(H^{(t-1)}))\, W^{(t)}\big), \qquad
# H^{(l)} = \tfrac1n \mathbf 1^\top H^{(l-1)} W^{(l)},$$
#
# earlier bounds grow with a power of the largest degree $d$. The talk's bound (12) has $\|P\|_2^{l-1}$ instead, the
# spectral norm of the diffusion matrix:
#
# $$L - (1+\epsilon) \hat L \;\lesssim\; \sum_{i=1}^{l} \sqrt{\frac{d_i\, \max \|X\|_2^2 \|P\|_2^{2(l-1)}\;
# r_i^2 \prod_j s_j^2}{N}} .$$
#
# Here $s_i$ are the spectral norms of the weights, $s_i r_i$ their Frobenius norms, $d_i$ the widths, $N$ the number of
# graphs. We ask how much smaller this is, on graphs and on trained networks, and how far it is from the gap itself.

# %%
from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## Table 1: what a bound takes from the graph
# $\|A\|_2$ lies between $\sqrt d$ (a star) and $d$ (a regular graph), so that the gain can be anything between nothing
# and a square root.

# %%
paper.figure(
    "table1",
    title="Table 1 · its entries over the depth",
    see="Each curve is an entry of the table over the depth. The thick red one, a power of the degree, is what the "
    "blue one replaces: far above it on a star, equal to it on a regular graph.",
    printed="The talk prints formulas; the graphs are ours.",
)

# %%
paper.figure(
    "table1_norms",
    [
        "table1-norms-never-exceed-the-degree",
        "table1-equality-on-regular-graphs",
        "table1-star-gains-the-root-of-the-degree",
        "table1-gcn-is-free-of-the-graph",
        "table1-ten-*",
    ],
    title="Table 1 · norms beside the largest degree",
    see="How many times each norm lies below the largest degree. At the dashed line nothing is gained; of an MPNN's "
    "norm (blue) the real graphs here gain a factor of 1.5 to 4.5, the social networks of the next figure 1.8 to 12. "
    "Of a collection the largest degree and the largest norm are taken, which may be of different graphs, as in (12); "
    "graph by graph the median gain is 1.2 on MUTAG, 1.9 on IMDB-BINARY and none on IMDB-MULTI.",
    printed="Ours: the talk says that the norm is at most the degree.",
)

# %% [markdown]
# Two remarks on the table. The GraphSAGE's matrix $D^{-1}A$ has row sums of one, but that does not bound its spectral
# norm by one: $\sqrt d$ does. And Table 1 prints $d^{l-1}$ for Liao et al. on MPNNs, where their Theorem 3.4 grows as
# $d^{(l+1)(l-2)/l}$ (dotted).

# %%
paper.summary(["table1-walk-*", "sensitivity-liao-mpnn-*"])

# %% [markdown]
# ## Five social networks

# %%
paper.figure(
    "graph_statistics",
    ["networks-*"],
    see="The largest degree (red) and three norms of each network, on a logarithmic axis: the walk's norm (violet) "
    "lies far below the degree and above 1, the normalised one at 1.",
    printed="The slide does not name its five networks (D1).",
)

# %% [markdown]
# ## A toy with one linear layer
# For $f = \tfrac1n \mathbf 1^\top P X w$ with $|f| \le C$ the slide concludes that the gap is at most about
# $\sqrt{C/N}$. A Lipschitz loss gives $C/\sqrt N$. For the linear loss the largest gap over all $w$ of a given norm has
# a closed form.

# %%
paper.figure(
    "toy_linear",
    ["toy-*"],
    title="The toy · the largest gap and its bounds over N and C",
    see="Left: the largest gap (green) falls with N as both bounds do. Right: it grows with C as C/√N does, and "
    "crosses the printed √(C/N).",
    printed="The slide has the formula and no data.",
)

# %% [markdown]
# ## Figure 5: bounds of trained networks
# GCNs and MPNNs of two, four and six layers are trained on graph classification. Every bound is evaluated with the
# trained weights and with all hidden constants at one. An order between two bounds is judged as the figure draws it,
# from a ratio of one, where it is worst; constants may well move a bound by two orders of magnitude (D5).

# %%
paper.figure(
    "fig5",
    [
        "fig5-gcn-ours-below-liao",
        "fig5-mpnn-ours-below-liao",
        "fig5-gcn-liao-below-garg",
        "fig5-mpnn-liao-below-garg",
        "fig5-ours-below-garg",
    ],
    title="Fig. 5 · bounds and the measured gap over the depth",
    see="On GCNs (above) the three bounds part with the depth, and (12), blue, is the lowest. On MPNNs (below) they "
    "lie within a factor of 240. All are orders of magnitude above the measured gap (green). (12) bounds a loss, the "
    "two others an error rate at a margin of 1 (D5); the gap is that of the cross-entropy, in nats.",
    printed="The talk names neither data sets nor depths (D2, D3); the gap and the Hessian measures (violet) are "
    "added.",
)

# %% [markdown]
# The talk does not say how its bounds were read. Garg's theorem holds a limit on the activations, with which the degree
# enters once and not in every layer; and the MPNN that is trained makes $l-2$ diffusions where (12) charges $l-1$. Each
# reading is judged.

# %%
paper.figure(
    "fig5_readings",
    ["fig5-mpnn-liao-below-saturated-garg", "fig5-mpnn-ours-below-saturated-garg", "fig5-mpnn-ours-with-*"],
    title="Fig. 5 · each bound in its readings",
    see="Lines of one colour are readings of one bound; those with d + 1 lie on those with d where degrees are "
    "large. On MPNNs they lie further apart than the bounds do. On GCNs "
    "the line of Garg's bound with activations at most 1, which lies below that of Liao et al. with four and six "
    "layers, is no bound: their ReLU has no such limit.",
    printed="The talk shows one value a bound and does not say of which reading.",
)

# %%
paper.figure(
    "fig5_ratios",
    ["fig5-orders-of-magnitude", "fig5-gcn-ratio-grows-with-depth"],
    title="Fig. 5 · the two earlier bounds over (12)",
    see="On GCNs both ratios grow with the depth on every data set; on MPNNs some grow and some fall; Liao et al. on "
    "COLLAB alone lie below one (dashed). With d + 1 (dotted) the lines lie on those with d where degrees are large.",
    printed="Ours: the talk does not say by how much.",
)

# %% [markdown]
# ## The step behind the bound
# (12) comes from bounding $\operatorname{Tr} H_i$ layer by layer: each term is
# $\sqrt{\lVert W_i \rVert_F^2 \operatorname{Tr} H_i / N}$ for
# $\operatorname{Tr} H_i \le d_i \lVert X \rVert^2 \lVert P \rVert^{2(l-1)} \prod_{j \ne i} s_j^2$. Here the traces are
# measured, on the two networks of Fig. 5 and on the two others of Table 1 (D9).

# %%
paper.figure(
    "layer_traces",
    ["layer-*"],
    title="Traces of the layers over their bound",
    see="All points lie on that side of the dashed line where the bound holds, for the trace of the mean loss at the "
    "trained weights; the talk's α is the largest over a class and over examples (D9), so that not all of the distance "
    "is given away. It grows with the depth.",
    printed="The talk names the step and shows no trace.",
)

# %% [markdown]
# The talk's first factor is the distance from the initial weights, at which its prior is centred. Is a trained graph
# network nearer to them than to zero, and does it go further where there is nothing to learn?

# %%
paper.summary(["distance-*"])

# %% [markdown]
# A smaller bound is not yet a useful one. A bound on an error rate is informative when it is below 1. The Hessian
# measures of the trained networks are no bounds, but they can be compared with the gap.

# %%
paper.summary(["fig5-ours-is-vacuous", "hessian-measure-within-an-order-*"])

# %% [markdown]
# ## Which factor makes a bound large?
# The same networks, with factors of their bounds set to one in turn, and moved one at a time.

# %%
paper.figure(
    "bound_factors",
    title="What each factor adds to a bound",
    see="Each bar stacks what the factors add; the dash is the bound. Of (12) on GCNs the graph adds nothing, on MPNNs "
    "it adds the more the deeper they are.",
    printed="Ours.",
)

# %%
paper.figure(
    "bound_sweeps",
    ["sensitivity-garg-*", "sensitivity-liao-gcn-*", "sensitivity-w*"],
    title="The bounds as one factor is moved",
    see="What a bound does when one factor is moved and the others stay: depth and weights move all, width hardly. "
    "Moved so from MPNNs of two layers, whose W is untrained (D3), (12) grows fastest with the depth and is the "
    "largest from four layers on (laptop scale: with eight); among networks trained at their depth it is not, in the "
    "mean over data sets (Fig. 5).",
    printed="Ours.",
)

# %% [markdown]
# ## How far this reaches
# The talk names neither the five networks nor the three data sets, and gives no depths, widths, margins or constants
# (D1 to D5). At laptop scale the graphs are molecules and small generated ones with degrees of a few; the workstation
# scale has IMDB and COLLAB, whose degrees are in the hundreds.
