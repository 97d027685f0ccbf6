# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# A network that has fitted its training data long ago can start to generalise much later: *grokking*. The classic case
# is a small transformer that sees half of the table of $a + b$ modulo 97 and is asked for the other half. This talk
# shows four runs (Fig. 4): without weight decay it never gets there; with a little it fluctuates and does not either;
# with a lot it groks, with large fluctuations; and with a lot of decay *plus noise injection* it groks and stays.
#
# The noise is there to regularise the Hessian. For $U \sim N(0, \sigma^2 I)$
#
# $$\mathbb E\, L(W + U) = L(W) + \tfrac12 \sigma^2 \operatorname{Tr} \nabla^2 L(W) + O(\sigma^4),$$
#
# so training at randomly shaken weights adds the trace of the Hessian to the loss. The talk's algorithm (NSO) takes
# the gradient on both sides, at $W + U$ and $W - U$, where the naive one (WP-SGD) takes it on one.
#
# We repeat the four runs with several seeds and ask besides: is the stability more than that of a smaller step, and do
# the two sides matter, at equal compute?

# %%
from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## One step
# In the mean of the gradients on both sides of $W$ the first-order effect of the noise cancels.

# %%
paper.figure(
    "fig2_update_step",
    ["fig2-*"],
    see="The two gradients (red) differ; their mean (blue) scatters less over draws of the noise than a one-sided one.",
    printed="The talk draws a sketch without a function; the valley with a wall is ours.",
)

# %% [markdown]
# ## Figure 4
# The last two panels are controls of ours: noise on one side with the same $\sigma$ and two draws, and half the
# learning rate for twice the steps. Both cost as many gradients as NSO.

# %%
paper.figure(
    "fig4",
    see="Validation (blue) with large decay reaches 99 % (dashed) and keeps falling back, and training "
    "(red, beneath it) with it: these are spikes of the loss, not of generalisation alone. With noise injection it "
    "stays. Small decay gets there only in runs of workstation length.",
    printed="The talk has panels a to d and gives neither decay, noise nor length; seeds, values and the two "
    "controls are ours.",
)

# %% [markdown]
# A run that is stopped early never groks: panels a and b are judged on runs ten times as long as large decay takes
# (D3), which the workstation scale has.

# %%
paper.summary(["fig4a-*", "fig4b-*", "small-decay-groks-*"])

# %% [markdown]
# Panels c and d in numbers. Fluctuation is the standard deviation of the validation accuracy over equally many steps
# after it first reaches 99 % (D5).

# %%
paper.figure(
    "fig4_fluctuation",
    ["fig4c-*", "fig4d-noise-*", "fig4d-grokking-is-delayed", "fig4d-late-*", "fig4d-more-stable-than-smaller-steps"],
    see="Noise on one or both sides ends most of the fluctuation of large decay, half the learning rate does not. "
    "One-sided noise takes longer to 99 % than two-sided noise (three seeds of ten never get there, and have no point "
    "where that is asked) and fluctuates more in most seeds.",
    printed="The talk shows curves and says stable or fluctuating; the measures are ours.",
)

# %% [markdown]
# Are the two sides what matters? WP-SGD has the same expectation as NSO and a larger variance.

# %%
paper.summary(
    [
        "nso-groks-earlier-than-wp-sgd",
        "nso-is-more-stable-than-wp-sgd",
        "nso-has-a-lower-trace-than-wp-sgd",
        "nso-has-a-lower-trace-per-nat-than-wp-sgd",
        "noise-costs-more-gradients-to-grok",
    ]
)

# %% [markdown]
# ## Is the Hessian regularised?
# A lower trace may only say that the loss is lower at that moment, so arms are also compared where their losses are the
# same. The network has ReLU, whose kinks noise feels and autograd's Hessian does not (D7).

# %%
paper.figure(
    "fig4_hessian",
    ["fig4d-lower-trace", "fig4d-lower-validation-trace", "fig4d-lower-sharpness", "fig4d-lower-*-per-nat"],
    title="Figure 4 · the Hessian along training",
    see="With either noise Tr H and λ₁ end one to two orders below large decay alone, at a lower loss. Per "
    "nat of it (last panel) the order of the two kinds of noise turns round at equal times; at equal loss they are not "
    "told apart at laptop scale, and at workstation scale have no loss in common.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# Half the learning rate for twice the steps takes as many gradients as noise injection. Does it end as flat?

# %%
paper.summary(["fig4d-lower-*-steps"])

# %% [markdown]
# ## Where is grokking?
# In the runs above with large decay generalisation follows the fit by less than a hundred steps on average. The word
# was made for a delay of orders of magnitude. Where is that? A map over decay, rate and share of a smaller table (D11):
# a marker a seed.

# %%
paper.figure(
    "phase_map",
    ["map-*"],
    title="What a network does by decay, rate and share of the table",
    see="Letters are the panels of Fig. 4 that a run looks like; a number is the median of the steps to 99 %. Seven "
    "of the runs called b come to 92 to 98.9 %, near what c asks.",
    printed="The talk has four settings and gives none of their values.",
)

# %%
paper.figure(
    "phase_times",
    title="Steps to fit and to generalise over the decay",
    see="The gap between dashed (training) and solid (validation) is the delay.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# Fig. 4 once more in a cell with a long delay. Its rules are decided only if large decay alone generalises at least
# ten times as late as it fits.

# %%
paper.figure(
    "fig4_late",
    [
        "late-no-decay-is-stable",
        "late-small-decay-fluctuates",
        "late-large-decay-*",
        "late-noise-injection-is-*",
        "late-noise-injection-groks",
    ],
    see="Training (red) is at 99 % after hundreds of steps, validation (blue) after thousands or not at all.",
    printed="The talk gives neither values nor seeds; the modulus here is 59.",
)

# %%
paper.figure(
    "fig4_late_long",
    ["late-no-decay-stays-below-100", "late-small-decay-stays-below-100"],
    title="Fig. 4a and b · ten times as long as large decay takes",
    see="Without decay all ten networks stay at 41 % at most, as in the talk's panel a; with a little decay all ten "
    "come to 99 % after 15,000 to 26,000 steps, and then to 100 %, against its panel b. Large decay takes 3,750 to "
    "5,750 steps to 99 %, 12.5 times what it takes to fit (median).",
    printed="The talk does not say how long its runs are.",
)

# %% [markdown]
# Noise in the weights also makes gradients noisy, and Adam divides by their size. So the same is asked of noise in the
# gradient of equal length, of a larger $\varepsilon$, of half the rate, and of averaged weights.

# %%
paper.figure(
    "fig4_late_arms",
    [
        "late-noise-injection-lowers-fluctuation",
        "late-noise-of-*",
        "late-strong-*",
        "late-noise-injection-groks-earlier-*",
        "late-noise-injection-calmer-*",
        "late-two-sides-*",
    ],
    see="Each arm beside large decay alone: when it generalises, how late after its fit, and how it fluctuates.",
    printed="The talk shows large decay with and without noise.",
)

# %% [markdown]
# If noise calms because it flattens, curvature must be lower at the same loss, and lower than with gradient noise.

# %%
paper.figure(
    "fig4_late_hessian",
    [
        "late-noise-injection-lowers-the-*",
        "late-noise-injection-lowers-sharpness",
        "late-noise-injection-has-*",
        "late-stronger-*",
    ],
    title="Figure 4 with a long delay · curvature over the loss",
    see="A point a measurement: arms whose points lie lower at the same loss are flatter than their loss explains.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# These losses seldom meet. So four arms once more, with seeds of their own, measured while the loss falls. Where a run
# comes by a loss several times, its last passage is judged: with large decay alone that is often a spike. At the first
# passage the differences from large decay and from noise in the gradient are smaller: as ratios Tr H is lower by a
# third there, $\lambda_1$ by three tenths, and in 1/nat $\lambda_1$ is not told from that of large decay (D13).

# %%
paper.figure(
    "equal_loss",
    ["equal-loss-*"],
    title="Curvature per nat at equal loss",
    see="Training goes from left to right until the loss rises again (gradient noise, spikes). At the same loss a "
    "lower line is flatter than its loss explains.",
    printed="The talk has no such figure.",
)

# %% [markdown]
# ## What the talk does not state
# The operation, $\sigma$, the weight decay and the share of the table are ours (D1). Does the result depend on them?

# %%
paper.figure(
    "operations",
    see="Left decay alone, right with noise injection, which comes to 99 % and stays near it but for late falls of "
    "four networks, three of them of division, to 73 to 91 %. Subtraction and division are the later ones: until they "
    "have nearly fitted, the validation accuracy is near nothing.",
    printed="The talk shows one operation and does not say which.",
)

# %%
paper.figure(
    "operations_fluctuation",
    ["operations-*"],
    see="Decay alone falls back again and again within the 2,000 steps after 99 %, on every operation; with noise no "
    "run falls by five points there, and on average each operation comes to 99 % earlier in steps, though later in "
    "gradients, of which noise takes two a step.",
    printed="The talk has no such figure.",
)

# %%
paper.figure(
    "noise_scale",
    ["noise-scale-*"],
    see="Modulo 97 noise from σ = 0.003 on ends most of the fluctuation, and σ = 0.01 lowers Tr H further. With "
    "σ = 0.03 eight of ten runs do not reach 99 % in 6,000 steps, and with σ = 0.1 nothing is learned.",
    printed="The talk gives no σ and has no such figure.",
)

# %% [markdown]
# ## Both sides against one
# On a smooth loss the gradient on both sides differs from that of the loss by $\tfrac12 U^\top \nabla^3 L\, U$: its
# variance falls as $\sigma^4$. On one side $H U$ stays, with variance $\sigma^2 \lVert H \rVert_F^2$ over the number of
# draws. On a ReLU network the gradient jumps where noise switches a unit.

# %%
paper.figure(
    "gradient_variance",
    ["nso-variance-*", "wp-sgd-variance-*", "control-nso-variance-on-the-quartic"],
    title="Variance of the gradient with noise on one side and on two",
    see="On smooth losses both follow theory (dashed). On the transformer two sides still scatter less, but not as "
    "σ⁴, and at the largest σ both scatter alike.",
    printed="The talk compares the two by training results; the variances are ours.",
)

# %% [markdown]
# ## Matrix sensing
# Here many matrices fit the measurements, and the trace of the Hessian is known exactly. Does noise find a flatter
# one, and is the flatter one nearer to the truth?

# %%
paper.figure(
    "matrix_sensing",
    ["sensing-*"],
    title="Matrix sensing with noise injection",
    see="With noise Tr H and the error of the recovered matrix end lower, at a higher training loss; the two kinds "
    "of noise lie on each other.",
    printed="The talk has no such problem; it is ours, because Tr H is exact in it.",
)

# %% [markdown]
# ## Controls
# With shuffled answers nothing can be generalised; dividing the table anew must not matter.

# %%
paper.figure(
    "controls",
    ["control-shuffled-answers-do-not-generalise", "control-equal-arms-agree"],
    see="True answers are generalised on either division of the table; shuffled ones are fitted and not generalised.",
    printed="Controls of ours, on a smaller table.",
)

# %% [markdown]
# ## How far this reaches
# The network is smaller than the usual one below the paper scale (D2), and what counts as small and large decay is
# ours: the verdicts are about these settings. Seeds differ in initial weights, split and order of batches, which all
# arms of a seed share.
