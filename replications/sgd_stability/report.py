# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# Stochastic gradient descent fits networks that have far more parameters than examples, and of all the minima that fit
# it tends to find good ones. This lecture gives one reason: **sharp minima are unstable**. Around a minimum with
# Hessian $H$ gradient descent with learning rate $\eta$ multiplies a displacement by $I - \eta H$, so that it can only
# stay where
#
# $$\lambda_1(H) \le \frac{2}{\eta} .$$
#
# SGD adds noise which is itself shaped like the Hessian, and can only stay where $\|H\|_F$ is at most about
# $\sqrt B/\eta$: the smaller the batch, the flatter the minimum, however large the network. Whether flat minima also
# generalise is a second question, and the lecture is careful to keep the two apart. We follow its order: what is
# observed, what flatness can and cannot explain, and then the dynamics.

# %%
from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## Good and bad minima
# Training sets have bad interpolating minima too, only nobody finds them by accident. Here gradient descent fits twelve
# points of a sine; a second network is first led past false points between them, and then fits the twelve as well as
# the first one does.

# %%
paper.figure(
    "fig3",
    ["fig3-*"],
)

# %% [markdown]
# The last line is the lecture in one sentence: the bad minimum is so sharp that the learning rate which found the good
# one would not have let descent stay there.
#
# SGD is said to do better than full-batch gradient descent. A quoted table trains a ResNet on CIFAR-10 with 3,000
# full-batch steps and shows that clipping and a penalty on the gradient make up for what mini-batches do. Ours is a
# small version of it. Every arm is tuned by validation data, with as many candidates for the learning rate of descent
# as for that of SGD, and trained to its end; only the row with as many epochs as SGD is stopped before, as it is in the
# table. What a comparison of equal epochs shows is first of all that few steps do not suffice.

# %%
paper.figure("fig4", ["fig4-*"])

# %% [markdown]
# ## The landscape
# Slices through the loss of a deep network, in two random directions scaled filter by filter, look chaotic without skip
# connections and smooth with them. At laptop scale the networks are shallow and thin, and this is an illustration.

# %%
paper.figure("fig5", ["fig5-*"])

# %% [markdown]
# The **flat minima hypothesis** has two parts: SGD finds flatter minima, and flatter minima generalise better. The best
# known evidence compares batches of 256 with batches of a tenth of the data. On the line between two such networks the
# large-batch end lies in the narrower valley.

# %%
paper.figure("fig6", ["fig6-*"])

# %% [markdown]
# The ε-sharpness of Keskar et al. is the largest rise of the loss in a small box, in a random subspace of 100
# dimensions. Its absolute value grows with the number of parameters; what is compared are the batches.

# %%
paper.figure("table4", ["table4-*", "large-batches-end-at-a-larger-sharpness"])

# %% [markdown]
# After equally many epochs the small batches have taken 24 times as many steps and fitted much closer, and near a fit
# cross-entropy flattens with the loss itself. So we also compare where each run first passes the same training loss.

# %%
paper.summary(["sharper-at-equal-training-loss"])

# %%
paper.figure("table2", ["table2-*"])

# %% [markdown]
# ## What is flatness?
# $\lambda_1$, the trace and the Frobenius norm each answer what a small perturbation does to the loss: the worst one,
# an isotropic one, one shaped by the Hessian. The lecture gives all three with an error of order $\rho$.

# %%
paper.figure("identities", ["identity-*"])

# %% [markdown]
# The usual explanation of why flatness should help is a drawing: if the test loss is the training loss shifted a
# little, a flat minimum suffers less.

# %%
paper.figure("fig7", ["fig7-shift-costs-more-at-the-sharp-minimum"])

# %% [markdown]
# The lecture calls the drawing misleading, for it says that sharp minima cannot generalise. They can: multiply the
# incoming weights of a ReLU neuron by a factor and divide the outgoing one by it, and the function stays while the
# sharpness does not.

# %%
paper.figure("rescaling", ["rescaling-*"])

# %% [markdown]
# ## The PAC-Bayes explanation
# A distribution $Q$ over networks loses little between training and fresh data if it stays close to a prior $P$ that
# does not know the data. The proof rests on Donsker and Varadhan's formula, $\log \mathbb{E}_\pi e^V = \sup_p
# \big(\mathbb{E}_p V - \mathrm{KL}(p \,\|\, \pi)\big)$, of which we compute both sides.

# %%
paper.figure("donsker_varadhan", ["donsker-varadhan-*"])

# %% [markdown]
# McAllester's theorem then bounds the gap by $\sqrt{(\mathrm{KL} + \log 1/\delta)/2n}$. We test it where every gap is
# pure chance: a hundred hypotheses that guess. The slides' proof goes wrong in three places. Chernoff's inequality is
# printed with $\ge$. The divergence is taken out of the expectation over samples as if $Q$ did not depend on them, and
# for such a $Q$ Hoeffding's inequality alone would do, without any divergence; for a $Q$ that is chosen from the sample
# that step fails, and with the divergence left inside it is right. And $\lambda$ is optimised after $Q$ is known, which
# needs a union bound.

# %%
paper.figure(
    "mcallester",
    [
        "mcallester-as-printed-holds-for-guessers",
        "chernoff-inequality-*",
        "printed-proof-*",
        "hoeffding-fails-for-a-chosen-posterior",
        "divergence-inside-the-expectation-repairs-it",
    ],
)

# %% [markdown]
# The bound for flat minima takes $Q$ to be a Gaussian around the trained weights, replaces the expected loss by the
# largest one in a ball, and leaves the union bound over the prior's variance as homework. As printed it mixes two
# radii: the ball has radius $\sigma$, though Gaussian noise of that deviation reaches $\sqrt k$ times as far, and
# $\rho$ is said to be free, in which case $\rho \to \infty$ makes the number of parameters disappear. We evaluate it
# in both readings and with the constants worked out, for networks that fit true labels and for networks that fit
# random ones.

# %%
paper.figure(
    "flatness_bound",
    [
        "flatness-bound-*",
        "noise-reaches-beyond-the-printed-ball",
        "union-bound-costs-little",
        "noise-does-not-lower-the-test-loss",
    ],
)

# %% [markdown]
# "Let us criticize this theorem", say the slides, and rightly: what remains after every correction is mostly the square
# root, and it says nothing. The union bound, which the slides worry about, is the cheapest part.
#
# ## When flatness implies generalisation
# At an interpolating minimum of the squared loss the Hessian is $G = \frac1n \sum_i g_i g_i^\top$ with the gradients
# $g_i$ of the outputs. For a two-layer ReLU network without biases its trace and norms are weighted norms of the
# parameters. The theorem is for all of them: beside those that are drawn stand the neurons with the least and the most
# curvature that a search finds, from as many examples on as the theorem asks for.

# %%
paper.figure("theorem2")

# %%
paper.figure(
    "theorem2_worst_neuron",
    [
        "theorem2-trace-*",
        "theorem2-frobenius-*",
        "theorem2-spectral-*",
        "theorem2-with-the-printed-root",
        "theorem2-norm-must-be-squared",
        "theorem2-fails-for-few-examples",
        "theorem2-worst-neuron-at-4d",
        "path-norm-*",
    ],
)

# %% [markdown]
# By the theorem a small norm means a small gap. It is printed with a factor $\mathrm{poly}(n, 1/\delta)$, with which it
# says nothing; we leave the factor out. Even so it says something only where it lies below the error of $f = 0$, which
# a network that has learnt nothing has too: at few examples it does not, from a sharp start at none of ours. How many
# examples it takes depends on how flat the interpolant is. Beyond as many examples as parameters, whoever interpolates
# has found the target, which is itself a small network: there the bound is safe for a reason of its own.
#
# Networks from small initial weights end flatter than those from large ones, but they differ in more than the trace; so
# we also ask among runs of equal $n$ and equal start.

# %%
paper.figure("theorem3", ["theorem3-*"])

# %% [markdown]
# ## When it does not
# With biases, and inputs from $\{\pm 1\}^d$, a network that keeps one neuron for each training point is as flat as
# any interpolating network can be, and knows nothing else. The printed weights do not work at the size of the
# experiment, nor are they the flattest; corrected ones are. But so is a network of four neurons that computes the
# target everywhere: flatness does not tell the two apart.

# %%
paper.figure(
    "theorem4", ["theorem4-memorising-*", "theorem4-printed-*", "theorem4-generalising-minimum-is-flattest-too"]
)

# %% [markdown]
# Sharpness-aware minimisation (SAM) descends along the gradient at the worst point nearby. Which networks does it
# find on this problem, and are they worse? That depends on what it is compared with: the figure's baseline is gradient
# descent with weight decay, its caption speaks of SGD.

# %%
paper.figure("fig8")

# %%
paper.figure("fig8_training_loss", ["fig8-*"])

# %% [markdown]
# The lecture's tables of SAM on ImageNet and SuperGLUE (its Figs. 9 and 10) are quoted, not repeated.
#
# ## Why SGD prefers flat minima: stability
# Switch from gradient descent to SGD at a minimum that descent has found, and SGD may leave it within a few
# steps, though gradient descent with the same learning rate stays: there $\lambda_1$ keeps a margin to $2/\eta$.
# (With one learning rate alone descent mostly comes close to $2/\eta$ itself, where "stable" is a matter of the last
# digit.) Away from the minimum the network may diverge, find another minimum, or neither.

# %%
paper.figure("fig11", ["escape-*", "gd-minimum-at-the-edge-is-stable", "edge-minimum-is-marginal"])

# %%
paper.figure("fig11_minima", ["fig11-*"])

# %% [markdown]
# Gradient flow can stay at every minimum. Gradient descent with a large learning rate cannot: of a sharp and a flat
# minimum it selects the flat one.

# %%
paper.figure("fig12")

# %%
paper.figure("fig13", ["fig12-*", "fig13-*"])

# %% [markdown]
# Between the two lies a range of learning rates that the picture leaves out: the sharp minimum is unstable, yet the
# steps never get out of its valley. They jump from side to side. Something of this kind is what networks do.
#
# ## The edge of stability
# Along full-batch training the sharpness rises until it meets $2/\eta$, and then hovers there.

# %%
paper.figure("fig14")

# %%
paper.figure("table1", ["table1-*", "linear-stability-bounds-sharpness", "fig14-*", "small-rate-stops-below-the-edge"])

# %% [markdown]
# Why does the smallest learning rate of Table 1 stay below? The loss reaches its end before the sharpness has risen so
# far. How far it has to rise depends on how many examples are fitted and how closely.
#
# ## What noise adds
# Two functions whose mean is equally sharp at both of its minima: gradient descent may stay at either, SGD leaves the
# one where the two functions disagree.

# %%
paper.figure("fig15")

# %%
paper.figure("multipliers", ["fig15-*", "equation-*"])

# %% [markdown]
# So besides the sharpness $a = \lambda_1(H)$ counts the **non-uniformity** $s$, the spread of the examples' own
# Hessians. Stability needs $a \le 2/\eta$ and $s \le \frac1\eta \sqrt{B(n-1)/(n-B)}$; both together are necessary,
# the full criterion is stronger.

# %%
paper.figure("fig16")

# %%
paper.figure("full_criterion", ["fig16-*", "sgd-lies-at-the-edge-of-the-full-criterion"])

# %% [markdown]
# Minima that are uniform are flat, too, because the two measures go together. Part of that is the sweep itself: both
# scale with $1/\eta$. So we look within one learning rate as well, and at the power of $a$ that $s$ follows over four.

# %%
paper.figure("fig17")

# %%
paper.figure("criterion_by_rate", ["fig17-*", "smaller-batches-generalise-better-here"])

# %% [markdown]
# ## Noise follows the curvature
# For the lecture's loss $L$, half the mean of $e^2$, the noise is about $2L\,G$: as large as the loss, and pointing
# where the landscape is sharp. (Learning rates and curvatures of this page are those of the mean of $e^2$ itself, D9.)
# $\alpha$ measures the direction, $\beta$ the size, $\mu = \alpha\beta$ both.

# %%
paper.figure("fig18")

# %%
paper.figure("fig18_cifar10", ["fig18-*", "alignment-direction-on-mnist"])

# %% [markdown]
# Not because all examples are fitted equally well, says the lecture, but because their gradients have similar norms.
# For linear networks and random features alignment is a proposition, over all parameters; the second asks for
# $n \gtrsim d^5$ examples and is judged where there are so many.

# %%
paper.figure(
    "uniformity",
    [
        "alignment-errors-less-uniform-than-gradients",
        "alignment-gradient-norms-are-uniform",
        "alignment-squared-gradient-norms-are-uniform-too",
        "alignment-gamma-underestimates",
    ],
)

# %%
paper.figure("propositions", ["proposition1-*", "proposition2-*"])

# %% [markdown]
# ## A bound without the size of the network
# If $\mu \ge \mu_0$, a minimum that is linearly stable for SGD has $\|H\|_F \le \frac1\eta\sqrt{B/\mu_0}$. The lecture
# calls the bound close to what SGD finds; we take that as a factor of two.

# %%
paper.figure("size_independence", ["size-independence-*"])

# %% [markdown]
# That the noise has the shape of the Hessian matters: isotropic noise of the same total variance gives a bound that
# grows with the number of parameters. The conditions are necessary ones; we also compute where stability really ends.

# %%
paper.figure("noise_structure")

# %%
paper.figure("noise_structure_conditions", ["noise-structure-*"])

# %% [markdown]
# ## How fast SGD leaves
# Where $\gamma_0 = \eta^2 \mu_0 \|H\|_F^2/B$ exceeds one, the expected loss grows at least like $\gamma_0^t$. In
# the model that is linear around the minimum the expectation is known exactly: in the long run it grows by the largest
# eigenvalue $\rho$ of the step of the second moment. A few rare trajectories carry it, so that the mean of 200 is a
# noisy estimate of it; the theorem is also tested by exact averages over batches, step by step.

# %%
paper.figure("fig19")

# %%
paper.figure("exponents", ["fig19-*", "theorem4-exponent-b1"])

# %%
paper.figure(
    "conditions",
    [
        "theorem4-one-step-ratio",
        "theorem4-premise-b1",
        "stable-minimum-is-not-left",
        "full-criterion-holds-at-b32",
        "theorem4-is-silent-at-b4",
    ],
)

# %% [markdown]
# ## Controls
# A planted effect must be found, and equal arms must agree.

# %%
paper.figure("controls", ["control-*", "theorem2-wrong-weight-shows-a-trend"])

# %% [markdown]
# ## What the slides get wrong
# Numbers repeat: there are two Theorems 1, 2, 3 and 4, and Tables 1, 2 and 4 are those of other papers beside a Table 1
# of its own. Of the content:
#
# - McAllester's proof, Chernoff step: $\mathbb P(\cdot \ge t) \ge \dots$ should be $\le$.
# - The same, the step after Donsker and Varadhan's formula: $e^{\mathrm{KL}}$ stands outside of $\mathbb E_S$, which
#   needs a $Q$ without knowledge of the sample; $\mathbb E_S\, e^{\lambda \Delta - \mathrm{KL}} \le e^{\lambda^2/8n}$
#   is right.
# - The same, last line: $\lambda$ is optimised after $Q$; that takes a grid of $\lambda$, or $\log(2\sqrt n/\delta)$
#   in place of $\log(1/\delta)$.
# - Flatness bound: a ball of radius $\sigma$ and a free $\rho$ should both be $\rho = \sigma(\sqrt k + \sqrt{\log
#   n})$, and $1 + \sqrt{\log n/k}$ its square.
# - The weighted norm has a root on one slide and none on the next; without it the equivalences hold.
# - Flatness implies generalisation: $\mathrm{poly}(n, 1/\delta)$ should be polylogarithmic.
# - Memorising solution: $b_j = -\tfrac12\sqrt d$ fails at $d = 30$, $n = 100$; $b_j = -(d-1)r$ with $w_j = r x_j$
#   works for every $d$. The cosines are of order $\sqrt{\log(n/\delta)/d}$, for $i \ne j$, not $\log(n/\delta)/n$.
# - $f_1$ and $f_2$ have factors ½ on one slide; SGD escapes without them only.
# - The noise adds $\frac{\eta^2}{2B}\mathrm{Tr}(H\Sigma)$ to the expected loss of a step; the ½ is missing once.
#
# ## How far this reaches
# At laptop scale the networks have 100 units a layer instead of 500 and see 100 to 6,000 images; each figure says so,
# and `paper.yaml` lists every choice that the slides leave open. What a laptop can only draw, the slices of Fig. 5
# above all, is called an illustration here.
