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
# the printed one is far below. As means over the parameters they are consistent. Then the trace is hundredths at
# most beside a norm of 6 to 160, and the printed a follows the norm. With the sums that equation 7 asks for, it need
# not fall.

# %%
paper.figure(
    "tables_1_to_6",
    [
        "table1-printed-squared-trace-is-a-sum",
        "table5-printed-squared-trace-can-be-a-mean",
        "table1-printed-measure-can-be-equation7",
        "table5-printed-measure-asks-for-less-than-fresh-weights",
        "table5-printed-trace-changes-little-beside-the-measure",
        "table1-equation7-from-the-columns-falls-at-large-decay",
        "table1-equation7-with-a-as-the-norm-falls-at-large-decay",
        "table5-equation7-from-the-columns-falls-at-large-decay",
        "table5-equation7-with-a-as-the-norm-falls-at-large-decay",
    ],
    title="Tables 1 to 6 · as printed",
    see="The printed a (blue) falls in all four networks. Equation 7, worked out from the printed columns (violet), "
    "turns up at the larger decay in the three convolutional ones, whichever way ‖w‖ is read from a.",
    printed="The document prints tables; drawn are their columns over the value without decay, and equation 7 is ours.",
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
        "table1-*-accuracy-rises-with-small-decay",
        "table1-trace-falls-with-decay",
        "table1-trace-rises-from-small-to-large-decay",
    ],
    title="Table 1 · computed",
    see="From left to right the gap in loss falls while λ₁ rises: the paradox. Tr H rises with it, where the print's "
    "is lower at either decay. Our accuracies hardly move; on 5,000 images that of the test rises with the larger "
    "decay by less than 0.09 points, a size that does not count.",
    printed="Diamonds are the printed lines, of one run; the document prints no error. Its gaps are smaller than "
    "all of ours, in loss less than half as large, and its accuracies move by two points.",
)

# %% [markdown]
# Which reading of a falls with the gap, and which is the printed one?

# %%
paper.figure(
    "table1_measure",
    [
        "table1-equation7-falls-with-decay",
        "table1-published-*",
        "table1-mean-trace-as-published",
        "table1-sharpness-as-published",
    ],
    see="At the document's setting the diamonds lie on ‖w‖ and on Tr H/P + ‖w‖/2, which fall alike, and off equation 7 "
    "(violet). Relative falls do not tell the two apart, values do: ‖w‖ is twice the printed a.",
    printed="Only the diamonds are printed.",
)

# %% [markdown]
# ## Equations 6 and 9
# The full divergence holds the log-determinant of a singular, indefinite Hessian: it exists only after damping, which
# makes up most of its value, and for δ up to 10⁻³ the quadrature cannot tell its change from its own error (D5).
# Equation 9 as printed changes by more, through N times the training loss, so that it speaks of the test loss and not
# of the gap.

# %%
paper.figure(
    "equations_6_9",
    ["equation9-printed-falls-with-decay"],
    title="Equations 6 and 9 · the change with decay over the damping",
    see="The change from no decay to 5·10⁻⁴ over the damping δ. Equation 9 as printed rises at every damping, with the "
    "training loss, while the test loss falls. Equation 6 as printed falls for δ of 0.1 and 0.01 at the document's "
    "setting, by 44 and 40 nats, nearly all of it ‖w‖²/2 at 0.1, and rises on 5,000 images, by 3 and 32; for smaller "
    "δ it is open. No other form has a sign that can be told at all four (read off after the runs).",
    printed="The document prints no value of either equation.",
)

# %% [markdown]
# ## Is it invariant?
# The abstract calls the measure parameterisation invariant. One function can be written with (α W₁, α b₁, W₂/α). A
# divergence is invariant if prior and posterior are carried over to the new weights. A fixed normal prior is not.

# %%
paper.figure(
    "parameterisation",
    ["invariance-of-a-equation7"],
    see="What is invariant would stay at 1. Above: λ₁ and every reading of a. Below: equation 6, whose changes the "
    "quadrature does not resolve.",
    printed="The document claims it, and shows no figure.",
)

# %% [markdown]
# ## Theorem 1
# "In the limit that the training loss goes to 0, λ₁ goes to 0." Scaling all weights of a network that separates its
# images does that. But layers can be rescaled against each other, which leaves the function and raises λ₁.

# %%
paper.figure(
    "theorem1",
    ["theorem1-sharpness-vanishes-on-the-ray", "theorem1-as-stated"],
    see="Solid: along the ray curvature falls with the loss. Dashed: the same functions with rescaled layers, whose "
    "λ₁ stays where it was.",
    printed="The document proves it and shows no figure.",
)

# %% [markdown]
# ## Mini-batches
# A trace is linear in the loss, so that the mean over batches is right. A square is not: its mean is too large by the
# variance of the matrix between batches.

# %%
paper.figure(
    "fig2",
    ["fig2-trace-hessian-*", "fig2-squared-*-is-too-large-*"],
    see="Curvature of a batch over that of all images (10,000 of the 60,000, or 5,000). The mean over batches of a "
    "trace is 1; one batch of 128 scatters by 2 % before and 21 % after training. Traces of squares lie above 1, Tr G² "
    "before training by little.",
    printed="The document draws each quantity in a panel of its own, on a network that it does not name (D8).",
)

# %%
paper.figure(
    "fig2_excess",
    ["fig2-squared-hessian-excess-*"],
    title="Fig. 2 · the excess of the squares over the batch size",
    see="By how much the squares are too large, over the batch size; dashed is what single images predict, so that at "
    "one image the two are equal by construction.",
    printed="Ours: the document predicts an excess, and not how large.",
)

# %% [markdown]
# ## Convolutional networks and spectra
# Below paper scale these are thin networks on few images (D7), judged only where the residual ones fit these as the
# document's do; our All-CNN-C fits where the document's does not.
# With twenty images a class nine tenths of the test images stay wrong, decay or not: the gap that decay can close is
# one of loss, not of accuracy.

# %%
paper.figure(
    "tables_2_4_5",
    [
        *(f"table{number}-loss-gap-falls-with-decay" for number in (2, 4, 5)),
        *(f"table{number}-sharpness-rises-with-decay" for number in (2, 4, 5)),
        *(f"table{number}-equation7-falls-with-decay" for number in (2, 4, 5)),
    ],
    title="Tables 2, 4 and 5 · computed",
    see="Dots are ours, diamonds the printed lines: compare where each row goes from left to right, and how far. "
    "Twenty networks of All-CNN-C and ten of either residual one stand at no decay and at 5·10⁻⁴, five at 10⁻⁴, which "
    "no rule reads: the five seeds of All-CNN-C that have all three lines have a mean λ₁ of 24.5, 25.2 and 36.4.",
    printed="Our networks are thin; a is drawn as Tr H/P + ‖w‖/2, which Table 1 agrees with. The columns of the gap in "
    "accuracy and of Tr H² are not drawn.",
)

# %%
paper.figure(
    "fig1",
    ["fig1-*"],
    title="Fig. 1 · spectra, test error and norm",
    see="How far the outliers of the spectrum reach (of one seed), beside test error and norm of the same networks: λ₁ "
    "grows and the norm falls, as decay makes it; the test error hardly changes.",
    printed="The document shows WRN-28-10 and more decays in (c); its spectra are two panels.",
)

# %%
paper.figure(
    "fig1_perceptron",
    see="The same of the perceptron: a bulk at 0 and a few outliers.",
    printed="The document shows the spectrum of the wide network alone.",
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
    see="The printed ± of the two arms overlap on CIFAR-100; on ImageNet-32 the penalty's value is the lower one.",
    printed="The document prints tables.",
)

# %% [markdown]
# Trained here, all arms of a seed see equal images in equal order. Does the penalty change the trace that it
# penalises?

# %%
paper.figure(
    "tables_7_8",
    ["table7-regulariser-*", "table7-hessian-*", "table7-ggn-version-does-not-diverge"],
    title="Tables 7 and 8 · each arm minus no penalty",
    see="Each arm minus no penalty at the same seed. At workstation scale accuracy rises, and so does Tr G, "
    "of all images with BatchNorm in evaluation mode; the trace that the steps penalise, of a mini-batch, is another.",
    printed="Thin networks on few images (D7); ImageNet-32 is not run. The arm of a sub-batch is an eighth of each "
    "mini-batch at the printed strength, which is no longer run: sub_batch has it where the penalty does something.",
)

# %%
paper.figure(
    "training_with_penalty",
    see="What the steps descend, along training: with the penalty, which adds to it, it ends higher by half.",
    printed="The document shows no curve.",
    aside=True,
)

# %% [markdown]
# Only where the penalty has an effect can one ask whether an eighth of each mini-batch, at half the cost, does the
# same. That takes a strength thirty times the document's (D12).

# %%
paper.figure(
    "sub_batch",
    ["sub-batch-leaves-*"],
    title="The penalty of an eighth of each mini-batch",
    see="Both penalties, of the whole batch and of an eighth, lower Tr G by about as much. At this strength "
    "the network no longer fits its images, and tests better all the same.",
    printed="Section 6 leaves it open.",
)

# %% [markdown]
# ## What it costs
# The measure is said to cost one step of SGD, and a step with the penalty three: two more gradients. This counts one
# random vector over the weights and is printed for Tr H. A random sign for each output has the mean Tr G and needs one
# differentiation less.

# %%
paper.figure(
    "cost",
    ["*-wrn"],
    see="Further to the left is cheaper, further down less noisy. The measure and the penalty by a probe of the "
    "weights lie right of what is printed for them (1, dashed, and 3, dotted); a probe of the outputs lies at 3.",
    printed="The document counts gradients in a footnote.",
)

# %% [markdown]
# ## Controls

# %%
paper.figure("controls", ["control-*"], see="Shuffled labels open the gap; an arm drawn twice lies on itself.")

# %% [markdown]
# ## How far this reaches
# The perceptron is decided at the document's setting, as far as it is stated, by twenty seeds, but for the larger
# decay's test accuracy, which is there between 0.03 points lower and 0.24 higher; on 5,000 images thirty seeds leave it
# less than 0.09 points. The convolutional networks and the regulariser need a GPU for days at full size; below that
# they are thin, and decide directions, not sizes.
