# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# On a quadratic with largest curvature $\lambda_1$, gradient descent with learning rate $\eta$ is stable as long as
# $\lambda_1 \le 2/\eta$; beyond, it swings with growing amplitude along the first eigenvector. Textbooks choose
# $\eta$ accordingly. Cohen et al. look at what networks do and find the opposite order: $\eta$ is given, and training
# moves to where $\lambda_1$ is just above $2/\eta$, and stays there.
#
# Plain gradient descent with squared loss is the subject of another replication here, `sgd_stability`. This one takes
# what is left: if the explanation by stability is right, then another rule must have another edge; and the quadratic
# picture must fail at the edge, since it has nothing that would hold $\lambda_1$ there.

# %%
from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## Each rule has its own threshold
# With momentum $\beta$, a step is a linear map of position and velocity. It contracts along a direction of curvature
# $\lambda$ up to
#
# $$\lambda \eta = 2 \;\text{(gradient descent)}, \qquad 2(1 + \beta) \;\text{(heavy ball)}, \qquad
# \frac{2(1 + \beta)}{1 + 2\beta} \;\text{(Nesterov)}.$$
#
# The first three verdicts find these numbers again by bisection on the spectral radius of a step. The figure lets the
# rules run on random quadratics whose $\lambda_1$ lies two per cent below or above.

# %%
paper.summary(["mss-*"])

# %%
paper.figure("growth")

# %% [markdown]
# ## Networks come to the threshold of their rule
# Learning rates are set so that all three rules have the same threshold, at two values (D3). Then $\lambda_1$ should
# rise to the same height under each, although the learning rates differ by almost three.

# %%
paper.figure("along_training")

# %% [markdown]
# As a product with $\eta$, the plateaus should lie at three different heights, which the formulas give without a free
# parameter. But $\eta$ is set by the same formulas: equal $\lambda_1$ give these heights whatever holds it, and what
# tests the paper is that $\lambda_1$ comes to either threshold. A run whose training is over before that is not left
# out: it counts with its level at the end (open symbols), and as one that is not on the plateau.

# %%
paper.figure("thresholds", ["fig1-*", "heavy-ball-*", "nesterov-*"])

# %% [markdown]
# ## Cross-entropy leaves the edge again
# The curvature of cross-entropy along the outputs is $p(1 - p)$. It vanishes as predictions become certain, so the
# Hessian can become small at the end, whatever the learning rate. Squared error stands beside it at a threshold and a
# length of its own (D7), and is compared where both losses have fallen by the same factor.

# %%
paper.figure("descent", ["cross-entropy-*", "squared-error-does-not-fall"])

# %% [markdown]
# ## What a quadratic model says
# From one point of training, gradient descent goes on twice: on the loss, and on the loss's second-order expansion at
# that point: before the edge, where $\lambda_1$ first is above it, and a hundred steps later, when the iterate swings
# along the first eigenvector. If the paper is right, the two agree before the edge and part at it: the expansion says
# that training diverges, and what holds the network is in the higher orders that it leaves out.

# %%
paper.figure("expansion", ["quadratic-model-*", "network-does-not-diverge-at-the-edge"])
