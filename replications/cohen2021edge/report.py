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

# %%
paper.figure(
    "growth",
    ["mss-*"],
    see="Each rule on random quadratics whose λ₁ lies two per cent below its threshold, where it shrinks, or above, "
    "where it grows. In 200 dimensions (paper scale) a direction of nearly no curvature decides in some seeds how fast "
    "it shrinks, so that the control of two equal arms is inconclusive there.",
    printed="The paper states the thresholds and draws no such figure.",
)

# %% [markdown]
# ## Networks come to the threshold of their rule
# Learning rates are set so that all three rules have the same threshold, at two values (D3). Then $\lambda_1$ should
# rise to the same height under each, although the learning rates differ by almost three.

# %%
paper.figure(
    "along_training",
    title="Fig. 1 · λ₁ along training",
    see="λ₁ over the threshold, a line a seed. Under gradient descent and Nesterov's momentum it rises to 1 and stays"
    " about there, on average at or just above. Under the heavy ball it is thrown down as it arrives; on 5,000 images"
    " (paper scale) it then settles at 1, on 500 it lies in the last quarter of training between 0.88 and 1, also in"
    " 1,500 steps (workstation scale).",
    printed="The paper's network is trained on 5,000 images, as paper scale's here, at a range of learning rates.",
)

# %% [markdown]
# A run whose training is over before $\lambda_1$ is at its threshold is not left out: it counts as one that is not on
# the plateau. At paper scale every run is on it, and yet five seeds of five leave open whether more than half of all
# are: that takes more seeds. Since $\eta$ is set by the formulas, $\lambda_1 \eta$ agrees with them wherever
# $\lambda_1$ comes to its threshold.

# %%
paper.figure(
    "thresholds",
    ["fig1-*", "heavy-ball-*", "nesterov-*"],
    see="λ₁ · η on the plateau beside each rule's formula; open where λ₁ had not come to its threshold when training "
    "ended.",
    printed="Not in the paper, which draws λ₁ over time.",
)

# %% [markdown]
# ## Cross-entropy leaves the edge again
# The curvature of cross-entropy along the outputs is $p(1 - p)$. It vanishes as predictions become certain, so the
# Hessian can become small at the end, whatever the learning rate. Squared error stands beside it at a threshold and a
# length of its own (D7), and is compared where both losses have fallen by the same factor.

# %%
paper.figure(
    "descent",
    ["cross-entropy-*", "squared-error-falls-less-at-equal-loss"],
    see="λ₁ above, the loss below. With cross-entropy λ₁ overshoots 2/η and falls far below it as the loss does; with"
    " squared error, whose loss falls less far, it stays. At paper scale the squared error does not come to a tenth, so"
    " that the two are compared at laptop scale alone.",
    printed="The paper shows each loss in a figure of its own, on 5,000 images (here at paper scale).",
)

# %% [markdown]
# ## What a quadratic model says
# From one point of training, gradient descent goes on twice: on the loss, and on the loss's second-order expansion at
# that point: before the edge, where $\lambda_1$ first is 3 % above it, and a hundred steps or more after it came there.
# On 500 images this last moment is 60 to 80 steps after the second; on 5,000 it is 40 to 60, still on the first rise.

# %%
paper.figure(
    "expansion",
    ["quadratic-model-*", "network-does-not-diverge-at-the-edge"],
    title="The quadratic model beside the loss",
    see="On 5,000 images (paper scale) both fall together before the edge, and from the first crossing for most of a "
    "hundred steps. At the third moment λ₁ is at 1.05 to 1.06 times 2/η, and the loss parts first: it rises by 12 to "
    "17 % (past 2 % after 57 to 74 steps), while the model still falls, and falls back below its start. The model "
    "turns up later (past 2 % after 69 to 98 steps), in two of five seeds to end 5 and 6 % above its start. On 500 "
    "images (laptop scale) the loss rises by 22 to 47 % and falls back, and the model grows 10⁷-fold and more.",
    printed="The moments and the length of a hundred steps are ours (D5).",
)
