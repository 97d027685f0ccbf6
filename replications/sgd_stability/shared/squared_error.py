"""The loss of every regression of this paper: the mean over examples and outputs of the squared error, without ½.

It is the loss of the experiments whose learning rates the lecture prints (Table 1, Figs. 16 and 17). The lecture's
formulas are for one output and ½ mean e²: that loss, H and G are half of ours, Σ is a quarter, and η is twice ours for
the same step. Statements that hold for one hold for the other: ηH, ηλ₁ ≤ 2, η ‖H‖_F ≤ √(B/μ) and μ are the same (D9).
Ensembles have this loss by the name "mse".
"""

from torch import nn

squared_error = nn.MSELoss()
