# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# Does the flatness of a minimum tell how well a network generalises? This paper starts from a bound: if all weights
# may be perturbed a little without much harm, a PAC-Bayes argument limits the loss on fresh data. How far each weight
# may be perturbed depends on the diagonal of the Hessian $h_i$, on how fast the Hessian changes ($\rho$), and on the
# weight's own size. Put together, and without constants, this becomes a score, **pacGen**:
#
# $$\Psi = \sum_i \log\Big( (|w_i| + \kappa_i)\, \max\big(\sqrt{h_i + \rho \sqrt m\, \kappa_i},\; 1/\kappa_i\big) \Big),
# \qquad \kappa_i = \gamma |w_i| + \epsilon .$$
#
# Lower should mean better generalisation. The paper shows it on a toy with two parameters, and beside the gap between
# test and training loss for sweeps of batch size and learning rate.

# %%
from IPython.display import Markdown

from common.reports import open_paper

paper = open_paper()

# %% [markdown]
# ## A landscape with two parameters
# Five layers share the two numbers $w_1$ and $w_2$; a hundred points from three Gaussians are to be classified. The
# paper shows one such landscape. One picture can be chosen, so every seed here draws mixtures until one has the paper's
# pair of minima, and both minima are tried on 20,000 fresh points.

# %%
paper.figure(
    "fig1a",
    [
        "fig1-psi-higher-at-the-sharp-minimum",
        "fig1-bounds-similar",
        "fig1-sharp-fits-the-labels-better",
        "fig1-flat-boundary-is-simpler",
    ],
    see="The loss over both weights, cut at 1.2 nats: a sharp global minimum (green), a flat one that lies higher "
    "(red). The surface has the colour of Ψ, the plane below it that of the bound (13).",
    printed="As printed, but for the mixture and for how the layers share the weights, which are ours (D1).",
)

# %%
paper.figure(
    "fig1_map",
    see="The same from above: valleys of low loss, and Ψ, which is least where a weight is near zero.",
    printed="Not in the paper.",
)

# %%
paper.figure(
    "fig1b", see="The training sample of the first seed.", printed="Another mixture than the printed one (D1)."
)

# %%
paper.figure(
    "fig1c",
    see="What the sharp minimum predicts; rings are points whose label is the other one.",
    printed="The printed panel shows the points alone; the coloured regions are added.",
)

# %%
paper.figure(
    "fig1d",
    see="What the flat minimum predicts of the same points: a simpler boundary and, in this mixture, as many errors.",
    printed="Another mixture than the printed one (D1); the coloured regions are added.",
)

# %%
paper.figure(
    "fig1_fresh_data",
    [
        "fig1-flat-generalises-better",
        "fig1-gap-larger-at-the-sharp-minimum",
        "fig1-flat-seldom-better",
        "fig1-premise-is-rare",
    ],
    title="Fig. 1 · the two minima on fresh data",
    see="A point a mixture, flat against sharp minimum. Below the dashed line the flat one has less: mostly of Ψ, in "
    "three mixtures of five of the gap, in one of four of the loss on fresh data, by which one would choose a minimum "
    "(of those that fit alike to 0.03 nats, in half). All 200 are drawn; 39 of them had been seen at laptop scale, and "
    "the other 161 alone are judged.",
    printed="Not in the paper, which shows one mixture and no fresh data.",
)

# %%
tally = paper.metrics("toy_landscape").filter(regex="rejected").sum().astype(int)
Markdown(
    f"{tally['mixtures_rejected']} mixtures were drawn that lack the pair: {tally['rejected_single_minimum']} have one "
    f"minimum, {tally['rejected_none_flatter']} none that is flatter than the global one, "
    f"{tally['rejected_flat_too_high']} a flat one that lies too high, "
    f"{tally['rejected_flat_guesses']} one that guesses, "
    f"and in {tally['rejected_sharp_not_global']} the sharp one is not global."
)

# %% [markdown]
# ## Batch size and learning rate
# The network of the PyTorch example (21,840 parameters) is trained on MNIST with plain SGD. The paper reports that
# larger batches and smaller learning rates have a larger gap and a larger $\Psi$. Of batch sizes workstation scale
# decides (32 to 512, D4; not run yet: drawn are 32 to 160, which are not judged); of learning rates paper scale alone,
# which has the batches of 256 that the caption of Fig. 5 names. What other runs show is estimated beside each verdict.

# %%
paper.figure(
    "fig3",
    [
        "fig3-gap-grows-with-batch-size",
        "fig3-psi-grows-with-batch-size",
        "fig3-psi-follows-the-gap",
        "fig3-test-error-grows-with-batch-size",
    ],
    see="Gap above, Ψ below, over the epochs. Ψ is larger for larger batches, as the paper says; the gap is smaller.",
    printed="The printed legend's batch sizes and length of training are in no text copy; ours are smaller and shorter "
    "(D2, D4).",
)

# %%
paper.figure(
    "fig5",
    ["fig5-*-with-learning-rate", "fig5-psi-follows-the-gap"],
    see="The same for learning rates: Ψ is larger for smaller rates, as the paper says; the gap is smaller for them.",
    printed="Batches of 256 in print, far smaller ones here (D4).",
)

# %% [markdown]
# After equal epochs settings have fitted to different degrees, and a gap grows while a network fits. So settings
# are also compared at equal training loss, a comparison that the paper does not make.

# %%
paper.figure(
    "fig3_matched_loss",
    ["fig3-*-loss*"],
    see="Where runs first pass a training loss of 0.05 nats (red) no gap has opened yet on all images (at most 0.003 "
    "nats; with 2,000 it is 0.1 at every batch size); Ψ still grows with the batch size.",
    printed="Not in the paper.",
)

# %%
paper.figure(
    "fig5_matched_loss",
    ["fig5-*-loss*"],
    see="At equal training loss (red) no gap has opened here either (with 2,000 images: 0.1 nats at every rate); Ψ "
    "still falls with the learning rate.",
    printed="Not in the paper.",
)

# %% [markdown]
# ## What is inside Ψ?
# With $\gamma = \epsilon = 0.1$ the second argument of the maximum, $1/\kappa_i$, is about 10 for most weights. The
# first can only win where $h_i + \rho\sqrt m\,\kappa_i$ exceeds about 100. Where it never does, $\Psi$ is $\sum_i
# \log((|w_i| + \kappa_i)/\kappa_i)$: a function of the weights' sizes, without any curvature. We call that value the
# floor, and compute $\Psi$ with squared gradients, as the paper does, or with the diagonal of the Hessian, and with
# $\rho$ as section 7 has it ($\max_i |\Delta h_i|/|u_i|$), as a quotient of norms, or 0.

# %%
paper.figure(
    "fig3_readings",
    ["fig3-psi-without-rho-falls-with-batch-size", "fig3-psi-varies-mostly-with-rho"],
    see="Six readings of one score. Without ρ, or with ρ from norms, Ψ is the floor, and falls with the batch size; "
    "what lifts it and turns the trend round is ρ over coordinates.",
    printed="The paper plots the first reading alone.",
)

# %%
paper.figure(
    "fig5_readings",
    ["fig5-psi-varies-mostly-with-rho"],
    see="The same over learning rates: with ρ over coordinates Ψ falls with the rate, without it Ψ rises.",
    printed="The paper plots the first reading alone.",
)

# %% [markdown]
# The paper's $\rho$ divides by $|u_i|$, which for a uniform $u_i$ has an inverse without a mean: the
# coordinate that happened to move least can decide the value. How far apart are draws of $u$ at the same weights?

# %%
spread = paper.metrics("batch_size")["rho_spread"]
Markdown(
    f"Between draws at the end of a run the largest ρ is {10 ** spread.median():.1f} times the smallest in the median "
    f"over the runs of the batch-size sweep, and {10 ** spread.quantile(0.9):.0f} times or more in a tenth of them."
)

# %% [markdown]
# Can squared gradients replace the Hessian? Near a minimum the gradient of a mini-batch is that of all images plus
# noise, and the square of the noise falls as one over the batch size, at the very same weights.

# %%
paper.figure(
    "fig3_curvature",
    [
        "fig3-squared-gradients-fall-with-batch-size",
        "fig3-hessian-trace-grows-with-batch-size",
        "fig3-psi-at-*",
        "fig3-psi-of-*",
    ],
    see="Where runs first pass 0.05 nats (red) squared gradients fall with the batch size while Tr H, which they "
    "stand for, grows.",
    printed="Not in the paper.",
)

# %%
paper.figure(
    "fig5_curvature",
    ["fig5-psi-of-the-hessian-follows-the-gap"],
    see="With one batch size in all runs both fall with the learning rate at equal loss.",
    printed="Not in the paper.",
)

# %% [markdown]
# ## The sweeps on CIFAR-10
# The paper repeats both sweeps on CIFAR-10 and observes the same trends. The text leaves the momentum open, so both 0
# and 0.5 are run, and each of its statements is judged for both. They run from workstation scale on.

# %%
paper.figure(
    "fig4",
    ["fig4-gap-grows-*", "fig4-psi-grows-*"],
    see="Without momentum the gap grows the faster the smaller the batch, against the paper. With momentum it rises "
    "to batches of 12 and falls after; three of five networks with batches of 4 are not fitted (open markers). Ψ grows "
    "along training and shows no trend over the batch size.",
    printed="The printed figure has all 50,000 images and one reading of the momentum.",
)

# %%
paper.figure(
    "fig6",
    ["fig6-gap-falls-*", "fig6-psi-falls-*"],
    see="Without momentum the gap grows with the learning rate but at the largest, against the paper; with momentum it "
    "falls from a rate of 0.017 on. Open markers: not all five networks fit the images. Ψ is lower at larger rates in "
    "both, without momentum by less than its bands are wide.",
    printed="The printed figure has batches of 256 and all 50,000 images.",
)

# %%
paper.figure(
    "fig4_matched_loss",
    ["fig4-gap-over-equal-losses", "fig4-psi-follows-the-gap-at-equal-loss"],
    see="Where runs first pass a training loss of 1 nat (red) the gap is half a nat at every batch size without "
    "momentum, a little less at larger ones; the verdict takes the mean over all losses that both pass. Ψ has no "
    "order that five seeds would show.",
    printed="Not in the paper.",
    aside=True,
)
paper.figure(
    "fig4_readings",
    see="As on MNIST ρ over coordinates lifts Ψ far above the floor, up to fourteen times here; with ρ = 0 Ψ is the "
    "floor, which falls with the batch size, and with ρ from norms it is within 7 % of it for the Hessian (for squared "
    "gradients, not drawn, within 20 %).",
    printed="The paper plots the first reading alone.",
    aside=True,
)
paper.figure(
    "fig4_curvature",
    see="At a training loss of 1 nat (red) squared gradients fall with the batch size and Tr H grows, as on MNIST; at "
    "the end (blue) squared gradients lie orders of magnitude apart, Tr H by a factor of twenty and more, and so do "
    "the training losses.",
    printed="Not in the paper.",
    aside=True,
)
paper.figure(
    "fig6_matched_loss",
    see="Where runs first pass a training loss of 1 nat (red) the gap is half a nat at small rates and grows at large "
    "ones, with momentum to twice that; Ψ falls with the rate there as at the end (blue), within its bands.",
    printed="Not in the paper.",
    aside=True,
)
paper.figure(
    "fig6_readings",
    see="ρ over coordinates lifts Ψ four- to fourteenfold above the floor, and only then does it fall with the "
    "learning rate; with ρ = 0 Ψ is the floor, which grows.",
    printed="The paper plots the first reading alone.",
    aside=True,
)
paper.figure(
    "fig6_curvature",
    see="At a training loss of 1 nat (red) squared gradients and Tr H fall with the learning rate, slowly with "
    "momentum; at the end (blue) squared gradients lie orders of magnitude apart, Tr H by a factor of twenty and more.",
    printed="Not in the paper.",
    aside=True,
)

# %% [markdown]
# ## Where the score comes from
# The bound has two parts that ask for opposite things. The **sharpness term** $M$ bounds the rise of the
# training loss: half the curvature times the variance of each perturbation, and a third-order term with $\rho$. The
# **complexity** $G$ falls as the perturbation widens. On the toy both sides of each inequality can be computed.

# %%
paper.figure(
    "fig2",
    ["fig2-*"],
    see="At one width of the perturbation (grey) a larger curvature lifts the expected loss; M grows in proportion.",
    printed="The printed drawing names no function; ours makes (5) an equality.",
)

# %%
paper.figure(
    "tradeoff",
    ["eq9-rise-below-sharpness", "sharpness-grows-with-the-perturbation", "complexity-falls-with-the-perturbation"],
    title="M against G",
    see="M grows and G falls with the perturbation; the dot is where their sum is least. There the true rise is "
    "half of M on average. At the sharp minimum M outgrows it beyond, so that the dashed sum has its minimum further "
    "right; at the flat one both sums are least at σ = κ, the widest allowed. The axis is cut at 1.2 nats.",
    printed="Not in the paper, which speaks of the trade-off in section 4.3.",
)

# %%
paper.figure(
    "best_perturbation",
    ["lemma6-*", "sharpness-is-mostly-the-third-order-term"],
    title="The best perturbation beside σ*",
    see="How much wider than the closed-form σ* the best perturbation is, and what σ* loses: nothing for (12), which "
    "it minimises, little for (7), and more for the loss that both bound.",
    printed="Not in the paper.",
)

# %%
paper.figure(
    "correlated",
    ["lemma9-holds-for-correlated-perturbations"],
    title="Lemmas 5 and 9 · the rise over their bounds",
    see="Rise over bound when all coordinates move together: Lemma 5's diagonal is exceeded at small perturbations, "
    "Lemma 9's eigenvalue never.",
    printed="Not in the paper, which proves both lemmas.",
)

# %% [markdown]
# ## One function, other weights
# Multiply the first layer of a ReLU network by $\alpha$ and divide the second by it: the function stays, the Hessian
# does not. The paper argues that its bound changes little. We take two-layer networks trained on MNIST.

# %%
paper.figure(
    "two_layer_training",
    see="The networks that are rescaled and bounded fit their training images.",
    printed="Not in the paper.",
    aside=True,
)

# %%
paper.figure(
    "reparametrisation",
    ["sharpness-changes-at-alpha-16", "bound-*", "psi-change-is-small", "psi-moves-more-with-alpha-than-with-training"],
    see="Values for one and the same function, over those at α = 1. λ₁ and Tr H change up to "
    "two-hundredfold (at α = 1/16; 82- and 45-fold at 16), Ψ sevenfold; the bound, in which both stand behind "
    "logarithms, changes by a factor of 2.2 at most, of 1.3 with a fixed prior (both at 16).",
    printed="The paper argues in words and shows no figure.",
)

# %%
paper.figure(
    "reparametrisation_psi",
    ["psi-without-epsilon-and-rho-is-invariant", "eq23-*"],
    see="Ψ per weight. It is invariant only with ε = 0 and ρ = 0, and is then the same for trained and untrained "
    "weights.",
    printed="Not in the paper.",
)

# %% [markdown]
# ## What the bounds say
# Each bound is evaluated as printed, with one error after another corrected (D7, D8, D9, D13), and tightened where the
# paper is loose. Where it is corrected the loss is the probability of a wrong label, which lies in [0, 1] as Theorem 1
# asks; a bound above 1 is then vacuous.

# %%
paper.figure(
    "toy_bounds",
    ["toy-*"],
    see="With two weights the bounds lie around 1; a correction costs up to half a nat. Where they are below 1 they "
    "are still above 0.5, the loss of guessing (log 2 = 0.69 for cross-entropy). Diamonds are the loss of the "
    "perturbed weights on fresh data.",
    printed="The paper evaluates (13) in Fig. 1 alone.",
)

# %%
paper.figure(
    "network_bounds",
    ["network-lemma6-vacuous"],
    see="With tens of thousands of weights every version lies above 1, the least, Theorem 7 as printed, at 1.4; the "
    "divergence makes up most of it.",
    printed="The paper evaluates no bound on a network.",
)

# %%
paper.figure(
    "network_tradeoff",
    ["network-lemma6-optimum-minimises-12", "network-best-perturbation-is-wider", "network-sharpness-is-loose"],
    see="At σ* (1 on the axis) M of (9) is some 30 times the measured rise and its loosened form in (12) some 500 "
    "times, so that (12) + G turns up where the measured sum still falls.",
    printed="Not in the paper.",
)

# %% [markdown]
# ## Training with perturbed weights
# Algorithm 1 takes the gradient at $w + u$, with $u$ as wide as the curvature allows, $\sigma_i =
# \min\big(1/(\log(1+e)\sqrt{\eta (h_i + \rho_i\kappa_i)}),\; \kappa_i\big)$ in epoch $e$, and only where the last
# gradient was small. The paper finds that this acts as a regulariser, and compares it with unperturbed training only.
# We add isotropic noise of the same norm, weight decay, and smaller $\gamma$. It is run from workstation scale on,
# there with a network far thinner than the paper's: what holds of WRN-58-3 is settled at paper scale.

# %%
paper.figure(
    "fig7",
    ["fig7-*-acts-as-a-regulariser", "fig7-*-test-accuracy-rises"],
    see="With the printed constants this thin network learns nothing on CIFAR. With a tenth of γ it fits less and, "
    "on CIFAR-10, tests better in the end; so it does with isotropic noise of the same norm. With a hundredth it "
    "learns a little less than without. On Tiny ImageNet no arm has learnt much.",
    printed="WRN-58-3, all images of 32 × 32 and two arms in print; a thin network on 5,000 images of 16 × 16 here "
    "(D20).",
)

# %%
paper.figure(
    "fig7_differences",
    ["fig7-*-more-than-isotropic-noise", "fig7-*-more-than-weight-decay"],
    title="Fig. 7 · each arm against training without perturbation",
    see="Points a seed. A tenth of γ regularises on CIFAR-10 (less training, more test accuracy), and isotropic noise "
    "of the same norm does as well or better; on CIFAR-100 neither raises the test accuracy within 40 epochs. The "
    "printed γ costs all that was learnt, so that beside it nothing is said of the curvature; a hundredth changes "
    "little.",
    printed="Not in the paper.",
)

# %%
paper.figure(
    "fig7_levels",
    ["fig7-*-decides-little"],
    see="With the printed γ the perturbation is larger than the weights on CIFAR, and a tenth of that on Tiny "
    "ImageNet, whose γ is a tenth. Nearly all weights are perturbed, and in none does the curvature set the size: the "
    "limit κ does.",
    printed="Not in the paper.",
)

# %% [markdown]
# ## Controls

# %%
paper.figure(
    "controls",
    ["control-*", "psi-sees-shuffled-labels"],
    see="Shuffled labels open a gap of several nats, raise Tr H, and raise Ψ by a fifth, with overlap between single "
    "seeds, at a higher training loss.",
    printed="Not in the paper.",
)
