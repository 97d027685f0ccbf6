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
# We repeat the four runs with several seeds, and ask two questions that the talk does not: is the stability more than
# that of a smaller step, and is it the two sides that matter, at equal compute?

# %%
from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## One step
# The talk draws one update step. Ours is on a loss that is a valley with a wall. Gradients on both sides of $W$ point
# in different directions; in their mean the first-order effect of the noise cancels, and what is left of it is
# smaller.

# %%
paper.figure("fig2_update_step", ["fig2-*"])

# %% [markdown]
# ## Figure 4
# A line a seed, on a logarithmic axis of steps as usual. The last two panels are controls of ours: noise on one side
# with the same $\sigma$ and two draws, and half the learning rate for twice the steps. Both cost as many gradients as
# NSO.

# %%
paper.figure("fig4")

# %% [markdown]
# A run that is stopped early never groks. So panels a and b can only be judged on runs that last at least ten times as
# long as the runs with large decay take (D3); the workstation scale has that length, the laptop scale has not. In
# panel b every seed is asked. Whether its runs get there at last, and when, is a question of ours.

# %%
paper.summary(["fig4a-*", "fig4b-*", "small-decay-groks-*"])

# %% [markdown]
# Panels c and d, and the controls. Fluctuation is the standard deviation of the validation accuracy over the same
# number of steps after it first reaches 99 % (D5), on the same grid of evaluations in all arms.

# %%
paper.figure(
    "fig4_fluctuation",
    ["fig4c-*", "fig4d-noise-*", "fig4d-grokking-is-delayed", "fig4d-late-*", "fig4d-more-stable-than-smaller-steps"],
)

# %% [markdown]
# Are the two sides what matters? WP-SGD has the same expectation as NSO and a larger variance.

# %%
paper.summary(
    [
        "nso-groks-earlier-than-wp-sgd",
        "nso-is-more-stable-than-wp-sgd",
        "nso-has-a-lower-trace-than-wp-sgd",
        "noise-costs-more-gradients-to-grok",
    ]
)

# %% [markdown]
# ## Is the Hessian regularised?
# $\operatorname{Tr} H$, of which the talk speaks, and $\lambda_1$, which we add, along the run. A lower trace may only
# say that the loss is lower at that moment: with large decay alone the loss keeps jumping, and the curvature with it,
# on training and validation pairs alike. So we also compare the arms where their losses are the same, along the whole
# run. A trace may be negative, so traces are compared as they are and not as logarithms. The network has ReLU, whose
# kinks noise feels and autograd's Hessian does not (D7).

# %%
paper.figure(
    "fig4_hessian",
    ["fig4d-lower-trace", "fig4d-lower-validation-trace", "fig4d-lower-sharpness", "fig4d-lower-*-per-nat"],
)

# %% [markdown]
# Noise injection takes two gradients a step, large decay alone one. Half the learning rate for twice the steps takes as
# many. Does it end as flat?

# %%
paper.summary(["fig4d-lower-*-steps"])

# %% [markdown]
# ## What the talk does not state
# The operation, $\sigma$, the weight decay and the share of the table are ours (D1). Does the result depend on them?

# %%
paper.figure("operations")

# %%
paper.figure("operations_fluctuation", ["operations-*"])

# %%
paper.figure("noise_scale", ["noise-scale-*"])

# %% [markdown]
# ## Both sides against one
# On a smooth loss the gradient on both sides differs from that of the loss by $\tfrac12 U^\top \nabla^3 L\, U$: its
# variance falls as $\sigma^4$. On one side $H U$ stays, with variance $\sigma^2 \lVert H \rVert_F^2$ over the number of
# draws.
# A ReLU network is not smooth: where noise switches a unit the gradient jumps, however small $\sigma$ is. The talk
# compares the two by what training comes to; the variances are ours.

# %%
paper.figure("gradient_variance", ["nso-variance-*", "wp-sgd-variance-*", "control-nso-variance-on-the-quartic"])

# %% [markdown]
# ## Matrix sensing
# Here many matrices fit the measurements, and the trace of the Hessian is known exactly. Does noise find a flatter
# one, and is the flatter one nearer to the truth?

# %%
paper.figure("matrix_sensing", ["sensing-*"])

# %% [markdown]
# ## Controls
# With shuffled answers nothing can be generalised; dividing the table anew must not matter.

# %%
paper.figure("controls", ["control-shuffled-answers-do-not-generalise", "control-equal-arms-agree"])

# %% [markdown]
# ## How far this reaches
# The network is smaller than the usual one below the paper scale (D2), and what counts as small and large decay is
# ours. The verdicts are about these settings. The talk shows one run a panel; the seeds here differ in initial
# weights, split and order of batches, which all arms of a seed share.
