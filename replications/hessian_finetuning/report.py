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
# Lower layers are frozen, and what they make of the data is computed once (D3). Is there something to start from?

# %%
paper.figure(
    "frozen_features",
    ["frozen-*"],
    see="What a linear classifier finds in the untouched networks' output (for MNIST and MUTAG in the data "
    "themselves) lies above chance everywhere, for sentences by least.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# ## Fig. 1: noise in the weights
# Both sides of Claim 1 on training examples, smooth and ReLU networks apart, at the σ of the authors' code (for the
# perceptron at one of ours) and far below. The talk gives no tolerance; the 10 % are ours.

# %%
paper.figure(
    "fig1",
    see="Dots are the rise of the loss, lines σ²/2 Tr H. On the text encoder they agree throughout; the "
    "perceptron's dots leave the lines as σ grows, and with ReLU the line lies below the dots even at the "
    "smallest σ.",
    printed="The talk's text has the caption alone, with measurements from the last epoch of fine-tuning, and states "
    "neither networks nor σ. We take σ near the values of its authors' code; the decade of σ and the smooth twins are "
    "ours. Where a note says that MUTAG stands for COLLAB, that is our guess.",
)

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
    see="The gap between prediction and rise; the grey band is our 10 %. With the kinks added (green) ReLU "
    "networks come near it at small σ.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# What is left over. At the kinks of ReLUs the Hessian lacks the jumps of the slope. Where many units change their sign,
# what they add should be of the order σ², as the main term is; the order that is found leaves that open even with the
# directions of workstation scale. From half of σ down, in the range that we tried, less noise does not help.

# %%
paper.summary(["claim1-*", "fig1-digits-relu-with-kinks", "fig1-molecules-relu-with-kinks"])

# %% [markdown]
# ## Claim 2: the trace on training and on fresh data
# At fixed weights the deviation falls as $n^{-1/2}$ because that of any mean does. The proof of Theorem 1 takes the
# difference at the trained weights, which depend on the examples, to be of that order, too. Uniform convergence would
# be a statement on the worst weights of the class; ascent finds bad ones in the ball that the trained weights lie on.
# The talk derives the claim from a Lipschitz continuous Hessian, which this ReLU network has not (D6).

# %%
paper.figure(
    "claim2",
    ["claim2-*"],
    see="Trained on the examples themselves the difference is about ten times larger and falls less steeply than "
    "n^(−1/2) (dashed): networks that fit have hardly any Tr H on their own examples, so that this is the trace on "
    "fresh ones, of other networks at each n. At the worst weights that ascent finds it is larger still, but with "
    "6,400 examples not told apart.",
    printed="The talk states Claim 2 without a figure.",
)

# %% [markdown]
# ## Theorem 1
# Its right side at the trained weights, without the term whose constant is not given. α is the largest trace of a
# training example, so one example decides it; over as many test examples, which stand for the distribution of (8), it
# is many times larger. A right side above the largest possible loss C (4 nats here) holds and says nothing. The theorem
# assumes a twice differentiable loss with a Lipschitz continuous Hessian; the networks here have ReLU (D7).

# %%
paper.figure(
    "theorem1",
    [
        "theorem1-within-*",
        "theorem1-is-*",
        "theorem1-over-fresh-points-*",
        "theorem1-below-mcallester*",
    ],
    see="All three bounds lie near or above C, Theorem 1's at workstation scale 17 times or more above the mean gap. "
    "McAllester's and Catoni's are those of blind guessing, whatever the depth, and there six times or more above it. "
    "The product of norms begins "
    "below them and grows steeply with depth.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# The talk criticises products of norms because they grow exponentially with depth. Constants are left out of both, so
# which one grows faster says more than which one is smaller.

# %%
paper.summary(["norm-product-grows-with-depth", "theorem1-grows-more-slowly-with-depth", "theorem1-below-norm-product"])

# %% [markdown]
# ## Fig. 2: seven methods
# If the bound is informative, the measure that is taken from it should order methods of fine-tuning by their gap. The
# talk's text prints no measure by layers; ours follows the code of its authors but for what D14 says. It
# is summed over layers, with $v_i = W_i - W_i^{(0)}$, the largest loss $C$ of a training example, and the largest
# quadratic form of one:
#
# $$ \sum_i \sqrt{C \max_n v_i^\top \nabla_i^2 \ell_n v_i / n}. $$
#
# All methods have the same start and budget, and four strengths each (D10, D11). SGD, here and below, is training with
# nothing added: its steps are Adam's, as in the code of the talk's authors. Correlations are over these 28 settings
# within each seed, and hold for such settings only.

# %%
paper.figure(
    "fig2",
    [
        "fig2-image-measure-correlates-with-the-gap",
        "fig2-image-measure-on-test-points-correlates",
        "fig2-image-measure-says-something",
        "fig2-image-measure-exceeds-the-gap",
        "fig2-text-measure-correlates-with-the-gap",
        "fig2-text-measure-on-test-points-correlates",
        "fig2-text-measure-says-something",
        "fig2-text-measure-exceeds-the-gap",
    ],
    see="On sentences the gap rises with the measure, over training points, on images it falls. That over test points, "
    "of which rules below speak, is not drawn.",
    printed="The talk names the seven methods; its text states neither networks nor data. We take two; the four "
    "strengths of each method, and with them the spread, are ours.",
)

# %%
paper.figure(
    "fig2_methods",
    see="Each method at the strength that has the lowest validation loss in its seed. On images label smoothing "
    "and mixup have the largest gaps, at workstation scale with the smallest measures. Equal gradients leave SAM half "
    "the steps of the others.",
    printed="The talk gives no strengths; how they are chosen is ours, and for half of the methods it is an end of the "
    "four that were tried (D11).",
)

# %% [markdown]
# Is it the curvature or the largest loss $C$ that orders the methods, on which points is it measured, and is there more
# in it than how well the training data are fitted? Equation (8) takes its maximum over the distribution: test points
# stand for it, which a bound may not use, and on which $C$ is a loss that the gap holds too.

# %%
paper.figure(
    "fig2_correlations",
    ["fig2-image-measure-beats-*", "fig2-text-measure-beats-*"],
    see="On images the measure over training points orders the methods the wrong way round. The training loss orders "
    "them closely on both, in part by arithmetic, as the gap contains it.",
    printed="The talk has no such figure.",
)

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
# What survives the training loss? At workstation scale, where fine-tuning runs until its loss has settled on images,
# and on sentences still falls by a tenth in the last sixth, each reading of the measure is held against the training
# loss itself, against what is left once the training loss is given, and without any one of the seven methods; and the
# gap of the error stands beside that of the loss. Intervals of correlations take the 28 settings as drawn, too; those
# of what holds without any one method are over seeds alone, so that they are narrower.

# %%
paper.summary(
    [
        "fig2-*-correlates-with-the-error-gap",
        "fig2-*-beats-the-training-loss",
        "fig2-*-on-test-points-says-more-than-the-training-loss",
        "fig2-*-without-any-one-method",
        "fig2-*-curvature-on-test-points-correlates",
        "fig2-*-training-has-settled",
    ]
)

# %% [markdown]
# ## Fig. 3: noise injection
# WP-SGD takes gradients on one side of the weights, NSO on both. Both cost two gradients a step, so SGD with twice the
# epochs stands beside them. The steps of all four are Adam's (D10).

# %%
paper.figure(
    "fig3",
    ["fig3-image-nso-trace-*", "fig3-image-nso-sharpness-*", "fig3-text-nso-trace-*", "fig3-text-nso-sharpness-*"],
    see="At laptop scale SGD, WP-SGD and NSO hardly differ; twice the epochs do, by two to ten times, but for Tr H of "
    "the test loss on images. At workstation scale, on images, noise lowers Tr H and λ₁ of the test loss and not those "
    "of the training loss, which fall as one trains on; on sentences Tr H of the test loss goes to zero without noise, "
    "and below it with twice the epochs, which no theory of flat minima means.",
    printed="The talk's caption has ResNet-34 and BERT-Base, and its text states no length. Runs here take fewer steps "
    "than its authors' code, and the arm of equal cost is ours.",
)

# %% [markdown]
# At the end of the runs of workstation scale NSO has a smaller gap than either arm without noise, and WP-SGD a smaller
# one still, in every seed. But these arms also end at higher training losses, and at equal epochs a lower trace of the
# training loss may be a lower training loss and nothing else. So arms are compared where their training losses are the
# same: their traces, and their gaps.

# %%
paper.summary(
    [
        "fig3-image-nso-trace-below-sgd-at-equal-loss",
        "fig3-image-nso-trace-below-wp-sgd-at-equal-loss",
        "fig3-image-nso-gap-below-sgd-at-equal-loss",
        "fig3-image-nso-gap-below-wp-sgd-at-equal-loss",
        "fig3-text-nso-trace-below-sgd-at-equal-loss",
        "fig3-text-nso-trace-below-wp-sgd-at-equal-loss",
        "fig3-text-nso-gap-below-sgd-at-equal-loss",
        "fig3-text-nso-gap-below-wp-sgd-at-equal-loss",
        "fig3-*-at-equal-loss-below-*",
    ]
)

# %% [markdown]
# On test examples, at the end:

# %%
paper.summary(["fig3-image-nso-test-*", "fig3-text-nso-test-*", "fig3-image-nso-training-*"])

# %%
paper.figure(
    "fig3_validation",
    ["fig3-image-nso-accuracy-*", "fig3-text-nso-accuracy-*"],
    see="Accuracy does not tell the arms apart. At workstation scale the validation loss is higher the longer one "
    "trains without noise, and lowest with noise on one side (WP-SGD), on images and on sentences.",
    printed="The talk's text has no such numbers.",
)

# %% [markdown]
# ## All layers
# Above only the upper layers are trained, as far as a laptop carries. Does what they show hold where nothing is frozen?
# SAM and NSO stand beside training without noise, once of as many steps and once of as many gradients (D15).

# %%
paper.figure(
    "full",
    ["full-image-*-as-many-steps", "full-image-*-below-sgd"],
    see="On training points Tr H and λ₁ are lowest where SGD has as many gradients; of as many steps, Tr H of NSO is "
    "lower than SGD's in every seed. On test points Tr H of SAM and NSO lies below that of SGD of either kind in every "
    "seed, and their gaps below those of SGD of as many gradients.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# SGD of as many steps and of as many gradients give opposite answers on training points. The second fits them far
# closer: it ends at 0.006 to 0.03 nats, SGD of as many steps at 0.12 to 0.33, NSO at 0.10 to 0.44, SAM at 0.16 to 0.78;
# and where the loss is small, so is the Hessian. Part of the smaller gaps is the larger training loss, too. At equal
# training loss NSO and SAM can be held against SGD of as many steps alone (rules that were added after the runs): with
# SGD of as many gradients some seeds have no loss in common.

# %%
paper.summary(["full-image-*-at-equal-loss"])

# %% [markdown]
# ### All layers of the text encoder
# MiniLM-L6 with all of its layers on 1,000 sentences, the same four arms.

# %%
paper.figure(
    "full_text",
    ["full-text-*-as-many-steps", "full-text-*-below-sgd"],
    see="As on images Tr H and λ₁ on training points are lowest where SGD has as many gradients and fits closest, and "
    "its gap is largest, larger than SAM's and NSO's in every seed. Beside SGD of as many steps five seeds tell "
    "neither Tr H nor λ₁ apart; SAM's gap alone is smaller in each (no rule judges that). The mean accuracies lie "
    "within half a point. On test points Tr H is negative in 16 of 20 runs, so that it says nothing of flatness "
    "there.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# SGD of as many gradients ends at 0.002 to 0.003 nats, of as many steps at 0.02 to 0.05, SAM and NSO at 0.02 to 0.08.
# At equal training loss NSO and SGD of as many steps can be compared; in other pairs some seeds have none in common.

# %%
paper.summary(["full-text-*-at-equal-loss"])
