# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# A pretrained network, fine-tuned on a few hundred examples, fits them and still does well on others. The talk asks
# what the Hessian of the loss says about how well. Its argument has three steps: noise of variance $\sigma^2$ in the
# weights raises the loss by $\tfrac12 \sigma^2 \operatorname{Tr} H$; the trace is about the same on training and on
# fresh data; and so PAC-Bayes gives a bound with the trace and the distance $r$ from the pretrained weights,
#
# $$ L(W) \le (1+\epsilon)\Bigl(\hat L(W) + \sqrt{C \alpha r^2 / n}\Bigr) + O(n^{-3/4}). $$

# %%
from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## Where fine-tuning starts
# Lower layers are frozen, and what they make of the data is computed once. A linear classifier on the untouched
# networks' output shows whether there is something to start from. The small text encoder was trained for means over
# its tokens, so its upper layers are given the mean; BERT's pooler reads the first position (D3).

# %%
paper.figure("frozen_features", ["frozen-*"])

# %% [markdown]
# ## Fig. 1: noise in the weights
# Both sides of Claim 1 over the standard deviation of the noise, on training examples: the rise of the loss (dots) and
# $\tfrac12 \sigma^2 \operatorname{Tr} H$ (lines). Smooth and ReLU networks are kept apart. Each rule is judged twice:
# at the σ of the authors' code (for the perceptron, at one of ours), and at an eighth of it, where the expansion should
# hold for every smooth network. The talk draws the curves and gives no tolerance; the 10 % are ours.

# %%
paper.figure("fig1")

# %%
paper.figure(
    "fig1_gap",
    [
        "fig1-digits-relu",
        "fig1-molecules-relu",
        "fig1-text-smooth",
        "fig1-digits-smooth",
        "fig1-molecules-smooth",
        "fig1-*-small-sigma",
    ],
)

# %% [markdown]
# What is left over. Odd orders cancel, so for smooth networks it should vanish as σ⁴, faster than the σ³ of the claim.
# At the kinks of ReLUs the Hessian lacks the jumps of the slope, and what they add is of the order σ², as the main term
# is: making the noise smaller does not help there. Whether the rules on ReLU networks can be decided depends on the
# number of directions of noise, which bounds how well the kinks' share is known.

# %%
paper.summary(["claim1-*", "fig1-digits-relu-with-kinks", "fig1-molecules-relu-with-kinks"])

# %% [markdown]
# ## Claim 2: the trace on training and on fresh data
# At fixed weights the trace on n examples is a mean of n independent numbers, and its deviation falls as n^(−1/2)
# because any mean does. Weights trained on these examples depend on them: to fit an example changes its own curvature.
# The proof of Theorem 1 takes the difference at the trained weights to be of order n^(−1/2). Is it larger there, and
# does it still fall as fast?

# %%
paper.figure("claim2", ["claim2-*"])

# %% [markdown]
# ## Theorem 1
# Its right side at the trained weights, without the term whose constant is not given, beside the PAC-Bayes bounds
# that it starts from and the product of norms, for perceptrons of two to seven layers and for the pretrained image
# network. α is the largest trace of a training example, so one example decides it. Does the right side hold, is it
# below the largest possible loss, and how far is its complexity term from the gap?

# %%
paper.figure(
    "theorem1",
    [
        "theorem1-holds-*",
        "theorem1-within-*",
        "theorem1-is-*",
        "theorem1-below-mcallester",
        "mcallester-holds",
        "catoni-holds",
    ],
)

# %% [markdown]
# The talk criticises products of norms because they grow exponentially with depth. Constants are left out of both, as
# in the talk, so which one is smaller says less than which one grows faster.

# %%
paper.summary(["norm-product-grows-with-depth", "theorem1-grows-more-slowly-with-depth", "theorem1-below-norm-product"])

# %% [markdown]
# ## Fig. 2: seven methods
# If the bound is informative, the measure that is taken from it should order methods of fine-tuning by their gap. Here
# it is summed over layers, with $v_i = W_i - W_i^{(0)}$, the largest loss $C$ of a training example, and the largest
# quadratic form of one:
#
# $$ \sum_i \sqrt{C \max_n v_i^\top \nabla_i^2 \ell_n v_i / n}. $$
#
# All methods have the same start and budget, and four strengths each (D10, D11). Correlations are over these 28
# settings within each seed; the settings are ordered and not drawn at random, so an interval holds for such settings
# only.

# %%
paper.figure(
    "fig2",
    [
        "fig2-image-measure-correlates-with-the-gap",
        "fig2-image-measure-on-test-points-correlates",
        "fig2-image-measure-says-something",
        "fig2-text-measure-correlates-with-the-gap",
        "fig2-text-measure-on-test-points-correlates",
        "fig2-text-measure-says-something",
    ],
)

# %% [markdown]
# The methods side by side, each at the strength that has the lowest validation loss in its seed.

# %%
paper.figure("fig2_methods")

# %% [markdown]
# The sign may depend on where one looks: a run that fits its training examples better can have smaller forms and a
# smaller $C$ on them, and a larger gap. The measure on test points stands beside it: equation (8) takes its maximum
# over the distribution, though a bound may not use test points, and $C$ on them is a loss that the gap holds too.
#
# Compared with other measures, and split into its parts: is it the curvature or the largest loss $C$ that orders the
# methods, on which points is it measured, and is there more in it than how well the training data are fitted?

# %%
paper.figure("fig2_correlations", ["fig2-image-measure-beats-*", "fig2-text-measure-beats-*"])

# %%
paper.summary(
    [
        "fig2-image-measure-says-more-than-the-training-loss",
        "fig2-image-curvature-alone-correlates",
        "fig2-image-largest-loss-alone-correlates",
        "fig2-image-training-loss-alone-correlates",
        "fig2-text-measure-says-more-than-the-training-loss",
        "fig2-text-curvature-alone-correlates",
        "fig2-text-largest-loss-alone-correlates",
        "fig2-text-training-loss-alone-correlates",
    ]
)

# %% [markdown]
# ## Fig. 3: noise injection
# Gradients at randomly perturbed weights descend on a loss to which half the variance times the trace of the Hessian
# is added. WP-SGD takes them on one side, NSO on both sides of the weights. Both cost two gradients a step, so SGD
# with twice the epochs stands beside them.

# %%
paper.figure(
    "fig3",
    ["fig3-image-nso-trace-*", "fig3-image-nso-sharpness-*", "fig3-text-nso-trace-*", "fig3-text-nso-sharpness-*"],
)

# %% [markdown]
# At equal epochs a lower trace of the training loss may be a lower training loss and nothing else. So arms are compared
# where their training losses are the same: their traces, and their gaps.

# %%
paper.summary(
    [
        "fig3-image-nso-trace-below-sgd-at-equal-loss",
        "fig3-image-nso-trace-below-sgd-twice-at-equal-loss",
        "fig3-image-nso-trace-below-wp-sgd-at-equal-loss",
        "fig3-image-nso-gap-below-sgd-at-equal-loss",
        "fig3-image-nso-gap-below-wp-sgd-at-equal-loss",
        "fig3-text-nso-trace-below-sgd-at-equal-loss",
        "fig3-text-nso-trace-below-sgd-twice-at-equal-loss",
        "fig3-text-nso-trace-below-wp-sgd-at-equal-loss",
        "fig3-text-nso-gap-below-sgd-at-equal-loss",
        "fig3-text-nso-gap-below-wp-sgd-at-equal-loss",
    ]
)

# %% [markdown]
# On test examples, at the end:

# %%
paper.summary(["fig3-image-nso-test-*", "fig3-text-nso-test-*", "fig3-image-nso-training-*"])

# %% [markdown]
# Does it cost accuracy?

# %%
paper.figure("fig3_validation", ["fig3-image-nso-accuracy-*", "fig3-text-nso-accuracy-*"])
