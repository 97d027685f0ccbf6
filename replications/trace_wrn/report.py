# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# Weight decay makes networks generalise better, and, measured by the Hessian, their minima sharper. If flatness were
# all that matters this could not be. An anonymous submission of 2021 resolves the paradox by a PAC-Bayes argument in
# which the size of the weights enters beside the curvature, and proposes the measure
#
# $$ a = \operatorname{Tr} H + \tfrac12 \lVert w \rVert^2 . $$
#
# Lower should mean a smaller gap between test and training loss. We recompute its tables, ask which formula the
# printed numbers follow, and then which part of it decides.

# %%
from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## What the printed tables say
# The columns "Tr H" and "Tr H²" cannot be sums over the spectrum: a sum of squared eigenvalues is at least λ₁², and
# the printed one is far below. As means over the parameters they are consistent. Then the trace is thousandths beside
# a norm of tens, and the printed a follows the norm. With the sums that equation 7 asks for, it need not fall; in
# Table 1 that depends on how ‖w‖ is read from the printed a. The reading a = Tr H/P + ‖w‖/2 is the one that the
# perceptron confirms when it is trained at the document's setting (below); ‖w‖ = a is drawn dotted.

# %%
paper.figure(
    "tables_1_to_6",
    [
        "table1-printed-columns-are-sums",
        "table5-printed-columns-are-means",
        "table1-printed-measure-is-equation7",
        "table5-printed-measure-holds-no-squared-norm",
        "table1-printed-agreement-is-that-of-the-norm",
        "table5-printed-agreement-is-that-of-the-norm",
        "table1-equation7-from-the-columns-falls",
        "table1-equation7-with-a-as-the-norm-falls",
        "table5-equation7-from-the-columns-falls",
        "table5-equation7-with-a-as-the-norm-falls",
    ],
)

# %% [markdown]
# ## Table 1, computed
# The perceptron (784-10-100-10, by its parameter count) is trained with three decays from equal weights on equal
# images in equal order, so that differences belong to the decay.

# %%
paper.figure(
    "table1",
    [
        "table1-loss-gap-falls-with-decay",
        "table1-error-gap-falls-with-decay",
        "table1-*-rises-with-decay",
        "table1-trace-falls-with-decay",
        "table1-trace-is-no-indicator",
    ],
)

# %% [markdown]
# The gap in loss falls and $\lambda_1$ rises. The other curvatures, the gap in accuracy and the test accuracy can only
# be decided at the document's full setting, as far as five seeds can; and with the smaller decay accuracy does not
# rise:

# %%
paper.summary(["*-accuracy-rises-with-small-decay"])

# %% [markdown]
# Which reading of a falls with the gap?

# %%
paper.figure(
    "table1_measure",
    [
        "table1-equation7-falls-with-decay",
        "table1-mean-trace-measure-falls-with-decay",
        "table1-norm-alone-falls-with-decay",
        "table1-agreement-is-that-of-the-norm",
    ],
)

# %% [markdown]
# The readings in which the trace is divided by the number of parameters fall, and there the norm alone does it;
# whether equation 7 with the raw trace falls is decided at the document's full setting. There the candidates can
# be compared with the printed numbers:

# %%
paper.summary(["table1-published-*", "table1-trace-column-is-a-mean-over-parameters", "table1-sharpness-as-published"])

# %% [markdown]
# ## Equations 6 and 9
# The full divergence holds the log-determinant of a singular, indefinite Hessian: it exists only after damping, which
# makes up most of its value. As printed, the trace term belongs to another covariance than the log-
# determinant.

# %%
paper.figure("equations_6_9", ["equation6-*", "equation9-*"])

# %% [markdown]
# ## Is it invariant?
# The abstract calls the measure parameterisation invariant. One function can be written with (α W₁, α b₁, W₂/α).

# %%
paper.figure("parameterisation", ["invariance-of-*", "no-invariance-of-a-norm", "no-invariance-of-equation6-laplace"])

# %% [markdown]
# A divergence is invariant if prior and posterior are carried over to the new weights. A fixed normal prior is not.
#
# ## Spectra and the convolutional networks
# Below paper scale these are thin networks, an illustration of the code rather than evidence.

# %%
paper.figure("fig1_perceptron")

# %%
paper.figure("fig1")

# %%
paper.figure("tables_2_4_5")

# %% [markdown]
# ## Theorem 1
# "In the limit that the training loss goes to 0, λ₁ goes to 0." Scaling all weights of a network that separates its
# images does that. But the layers of the same function can be rescaled against each other, which leaves the loss and
# raises λ₁ without limit. So the limit of the loss alone decides nothing.

# %%
paper.figure(
    "theorem1", ["theorem1-sharpness-vanishes-on-the-ray", "theorem1-as-stated", "theorem1-refuted-by-rescaled-layers"]
)

# %% [markdown]
# ## Mini-batches
# A trace is linear in the loss, so that the mean over batches is right. A square is not: its mean is too large by the
# variance of the matrix between batches, which that of single images predicts.

# %%
paper.figure("fig2")

# %%
paper.figure(
    "fig2_excess",
    [
        "fig2-trace-hessian-*",
        "fig2-squared-hessian-is-too-large-on-a-batch",
        "fig2-squared-hessian-excess-as-predicted",
    ],
)

# %% [markdown]
# ## The trace as a regulariser
# Tables 7 and 8 report +0.27 points with η Tr G on CIFAR-100 over four seeds, called significant, and −0.23 on
# ImageNet-32, called an improvement.

# %%
paper.figure(
    "tables_7_to_9",
    [
        "table7-improvement-is-significant",
        "table7-is-not-significant-as-standard-errors",
        "table8-improves-on-imagenet",
    ],
)

# %% [markdown]
# Trained here, all arms of a seed see equal images in equal order. Does the penalty change the trace that it
# penalises? The Hessian in place of G is said to make training fail.

# %%
paper.figure("tables_7_8", ["table7-regulariser-*", "table7-hessian-*", "table7-ggn-version-does-not-diverge"])

# %% [markdown]
# Only where the penalty has an effect can one ask whether the trace of an eighth of each mini-batch, at half the cost,
# does the same. That takes a strength thirty times the document's (D12).

# %%
paper.figure("sub_batch", ["sub-batch-leaves-*"])

# %% [markdown]
# ## What it costs
# The measure is said to cost one step of SGD, and a step with the penalty three: two more gradients. This counts one
# random vector over the weights and is printed for Tr H; of Tr G, which takes its place, no count is printed. A random
# sign for each output has the same mean and needs one differentiation less.

# %%
paper.figure("cost", ["*-wrn"])

# %% [markdown]
# ## Controls

# %%
paper.figure("controls", ["control-*"])

# %% [markdown]
# ## How far this reaches
# The perceptron is decided by five seeds at the document's own setting, at workstation scale. The convolutional
# networks and the regulariser need a GPU for days at full size. Below that they are thin (D7): at workstation scale
# they decide the regulariser's direction on CIFAR-100, of five seeds, and no numbers; Tables 2, 4 and 5 wait for
# networks that fit their images as the document's do.
# Every choice that the document leaves open is a numbered deviation.
