"""The perceptron for MNIST that Practical PAC-Bayes (2021) calls "a single hidden layer of 100 units"."""

from common.models.fully_connected import FullyConnected


class MnistPerceptron(FullyConnected):
    """784-10-100-10 with ReLU: 9,960 parameters.

    The document says one hidden layer of 100 units, which would be 79,510 parameters, and gives 9,960: that number
    belongs to two hidden layers, of 10 and of 100 units.

    Shapes:
        input [n, 1, 28, 28] or [n, 784], output (logits) [n, 10].
    """

    SIZES = (784, 10, 100, 10)

    def __init__(self) -> None:
        super().__init__(self.SIZES)
