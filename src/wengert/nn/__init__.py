"""Neural-network modules, with the names and state-dict layouts of PyTorch."""

from __future__ import annotations

from . import functional, init, utils
from .layers.activation import (
    ELU,
    GELU,
    SELU,
    Hardswish,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from .layers.attention import MultiHeadAttention, MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from .layers.container import ModuleDict, ModuleList, ParameterList, Sequential
from .layers.conv import (
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    MaxPool1d,
    MaxPool2d,
)
from .layers.dropout import Dropout, Dropout2d
from .layers.linear import Bilinear, Embedding, Flatten, Identity, Linear, Unflatten
from .layers.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from .layers.norm import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm
from .layers.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .module import Module
from .parameter import Parameter
from .utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout2d",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "Hardswish",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "Parameter",
    "ParameterList",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
    "clip_grad_norm_",
    "clip_grad_value_",
    "functional",
    "init",
    "parameters_to_vector",
    "utils",
    "vector_to_parameters",
]


def __dir__() -> list[str]:
    return sorted(__all__)
