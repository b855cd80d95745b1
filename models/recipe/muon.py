"""Muon for matrices, AdamW for the rest.

Muon (Keller Jordan, 2024, https://kellerjordan.github.io/posts/muon/) replaces a matrix' momentum by the nearest
matrix with orthonormal rows or columns, found by a Newton-Schulz iteration. Convolution kernels count as matrices
[out, in * taps]. Steps are scaled to the size that AdamW's have, so that one learning rate serves both (Liu et al.,
2025, https://arxiv.org/abs/2502.16982).
"""

import collections
import functools

import torch

# The iteration's odd polynomial: steep at zero, singular values end near one.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
MOMENTUM = 0.95
RMS_OF_ADAMW = 0.2

# Whose inputs are constant (time step, frame position) or that are tables: rows say nothing about directions.
NOT_MATRICES = ("time_embedding", "add_embedding", "time_emb_proj", "time_pos_embed", "position_embedding",
                "class_embedding", "decoder.conv_out", "time_conv_out")


def orthogonalised(matrices):
    """float32 [k,m,n] -> the same with singular values near 1

    The iteration's steps x -> p(x x') x are polynomials of the first x x' times x: it is this small square matrix that
    they are worked out with, and x is multiplied once. A quarter of the work for a kernel of 3x3 taps; but bfloat16,
    which the plain iteration bears, is not enough for it."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    gram = x @ x.transpose(1, 2)
    factor = None
    for _ in range(ITERATIONS):
        step = b * gram + c * (gram @ gram)
        step.diagonal(dim1=1, dim2=2).add_(a)
        factor = step if factor is None else step @ factor
        gram = step @ gram @ step
    x = factor @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """map: runs a function over matrices of each shape, by several threads maybe."""

    def __init__(self, parameters, lr, map, weight_decay=0.01):
        super().__init__(parameters, dict(lr=lr, weight_decay=weight_decay))
        self.map = map

    def step(self):
        for group in self.param_groups:
            alike = collections.defaultdict(list)  # matrices of one shape are orthogonalised together
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike[tuple(parameter.flatten(1).shape)].append(parameter)
            list(self.map(functools.partial(self.update, group["lr"], group["weight_decay"]), alike.values()))

    @torch.no_grad()
    def update(self, lr, weight_decay, parameters):
        """One update of parameters whose matrices have one shape."""
        gradients = torch.stack([self.momentum(p).flatten(1) for p in parameters])
        size = lr * RMS_OF_ADAMW * max(gradients.shape[1:])**0.5
        for parameter, update in zip(parameters, orthogonalised(gradients)):
            parameter.mul_(1 - lr * weight_decay)
            parameter.add_(update.view_as(parameter), alpha=-size)

    def momentum(self, parameter):
        """Nesterov's: the gradient and the running mean with it."""
        state = self.state[parameter]
        if "mean" not in state:
            state["mean"] = torch.zeros_like(parameter)
        state["mean"].lerp_(parameter.grad, 1 - MOMENTUM)
        return parameter.grad.lerp(state["mean"], MOMENTUM)


class Optimizers:
    """Both optimisers over a model's parameters, used as one."""

    def __init__(self, model, lr, adamw_factor, map):
        matrices, others = [], []
        for name, parameter in model.named_parameters():
            is_matrix = parameter.ndim >= 2 and not any(part in name for part in NOT_MATRICES)
            (matrices if is_matrix else others).append(parameter)
        self.adamw_factor = adamw_factor
        self.both = (Muon(matrices, lr, map),
                     torch.optim.AdamW(others, lr * adamw_factor, betas=(0.9, 0.98), weight_decay=1e-3))

    def set_rate(self, lr):
        for optimizer, factor in zip(self.both, (1, self.adamw_factor)):
            for group in optimizer.param_groups:
                group["lr"] = lr * factor

    def zero_grad(self):
        for optimizer in self.both:
            optimizer.zero_grad(set_to_none=True)

    def step(self):
        for optimizer in self.both:
            optimizer.step()

    def state_dict(self):
        return [optimizer.state_dict() for optimizer in self.both]

    def load_state_dict(self, states):
        for optimizer, state in zip(self.both, states):
            optimizer.load_state_dict(state)
