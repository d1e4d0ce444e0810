"""Plays by the values that a network gives to all turns. The network was learned elsewhere, from logged games."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.learning.policy import Policy, check_ascending, check_no_wrong_row, check_range, load_checked_columns
from quarto.observations import GIFT_CODES, NO_CELL, NO_GIFT, TURN_CODES, encode_pieces_and_legal_turns
from quarto.rng import Streams
from quarto.rules import ATTRIBUTES, CELLS, NONE
from quarto.views import BatchView

NETWORK = "network"  # the kind of policy
PLANES = (CELLS + 1) * ATTRIBUTES
INPUTS = PLANES + TURN_CODES
UNIT = 2.0**-16  # weights are multiples of it, and units are rounded to it
MAX_WEIGHT = 64.0  # |weight|, and a unit: sums of so many products are exact in float64
MAX_UNITS, MAX_LAYERS = 512, 8
COLUMNS: dict[str, type[Any]] = {"layer": np.int64, "row": np.int64, "column": np.int64, "weight": np.float64}

Layers = list[tuple[NDArray[np.float64], NDArray[np.float64]]]  # weights [inputs, units] and biases [units] of each


def build_network_inputs(pieces: NDArray[np.int8], legal: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Build the inputs of a network: [N, INPUTS] int8.

    ``pieces`` [N, 17] are the pieces on the cells and in the hand. Each of these 17 places has an input for each
    attribute: 1 if the piece has the attribute, -1 if it lacks the attribute, 0 if there is no piece. They are
    followed by an input for each action, which is 1 if the action is legal: ``legal`` [N, 289].
    """
    bits = (pieces[:, :, None] >> np.arange(ATTRIBUTES)) & 1
    planes = np.where(pieces[:, :, None] == NONE, 0, 2 * bits - 1).reshape(len(pieces), PLANES)
    return np.concatenate([planes, legal], axis=1, dtype=np.int8)


def compute_values(layers: Layers, inputs: NDArray[np.int8]) -> NDArray[np.float64]:
    """Compute the value of every action: [N, 289] float64.

    Every sum is exact, so the values do not depend on how positions are grouped into batches.
    """
    units = inputs.astype(np.float64)
    for number, (weights, biases) in enumerate(layers, 1):
        units = units @ weights + biases
        if number < len(layers):
            units = np.rint(np.clip(units, 0.0, MAX_WEIGHT) / UNIT) * UNIT
    return units


class Network:
    """A player that makes the legal turn to which a network gives the greatest value; on ties the first one.

    The network has rectified linear units. The player knows no tactics and need not take a win. Without a policy, it
    makes a random legal turn, drawn with random word 0.

    ``policy`` is of kind 'network'. Its table has a row for each weight: of layer ``layer`` (int8), from input ``row``
    to unit ``column`` (int16 each), with the value ``weight`` (float64). A unit's bias is stored as the weight of an
    additional input after the last one. The rows ascend by layer, input and unit. Raises ``ValueError`` if the policy
    is of another kind or its table is invalid.
    """

    choosers = ("opponent",)

    def __init__(self, policy: Policy | None = None) -> None:
        self._layers = None if policy is None else _load_layers(policy)

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        pieces, legal = encode_pieces_and_legal_turns(batch.packed, batch.rules)
        if self._layers is None:
            actions = rng.choice(0, legal)
        else:
            actions = np.where(
                legal, compute_values(self._layers, build_network_inputs(pieces, legal)), -np.inf
            ).argmax(axis=1)
        cells, gifts = np.divmod(actions, GIFT_CODES)
        return np.where(cells == NO_CELL, NONE, cells), np.where(gifts == NO_GIFT, NONE, gifts)


def to_policy(layers: Layers) -> Policy:
    """Convert layers to a policy, with the weights rounded to multiples of ``UNIT``.

    Raises ``ValueError`` for layers that do not form a valid network.
    """
    parts, width = [], INPUTS
    for number, (weights, biases) in enumerate(layers):
        if np.shape(weights) != (width, np.size(biases)) or width > MAX_UNITS:
            expected_shape = f"({width}, {np.size(biases)}), of at most {MAX_UNITS} inputs"
            raise ValueError(f"weights of layer {number} are {np.shape(weights)}, not {expected_shape}")
        rows = np.vstack([weights, np.ravel(biases)]).astype(np.float64)
        largest = np.abs(rows).max(initial=0.0)
        if not largest <= MAX_WEIGHT:
            raise ValueError(f"a weight of layer {number} is {largest:g} in size: at most {MAX_WEIGHT:g} is possible")
        indices = np.indices(rows.shape).reshape(2, -1)
        parts.append((np.full(rows.size, number), *indices, np.rint(rows.ravel() / UNIT) * UNIT))
        width = np.size(biases)
    if width != TURN_CODES or not 0 < len(parts) <= MAX_LAYERS:
        description = f"layers: {len(parts)}, the last of width {width}"
        raise ValueError(f"{description}: a network has 1 to {MAX_LAYERS} layers, the last of {TURN_CODES} units")
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    types = (np.int8, np.int16, np.int16, np.float64)
    return Policy(
        NETWORK, table={name: column.astype(t) for name, column, t in zip(COLUMNS, columns, types, strict=True)}
    )


def _load_layers(policy: Policy) -> Layers:
    """Load the layers of a policy. Raises ``ValueError`` for layers that do not form a valid network."""
    layer, row, column, weight = load_checked_columns(policy, NETWORK, "network", COLUMNS)
    check_range("layer", layer, 0, MAX_LAYERS - 1)
    check_range("row", row, 0, MAX_UNITS)
    check_range("column", column, 0, MAX_UNITS - 1)
    check_ascending({"layer": layer, "row": row, "column": column})
    check_no_wrong_row("weight", weight, np.abs(weight) > MAX_WEIGHT, f"is not from -{MAX_WEIGHT} to {MAX_WEIGHT}")
    check_no_wrong_row("weight", weight, weight / UNIT % 1.0 != 0.0, "is no multiple of 2^-16")
    layers: Layers = []
    width = INPUTS
    for number in range(int(layer.max(initial=-1)) + 1):
        in_layer = layer == number
        units = int(column[in_layer].max(initial=-1)) + 1
        if in_layer.sum() != (width + 1) * units or units == 0 or row[in_layer].max() != width:
            raise ValueError(f"layer {number} of a policy is not a row for each of {width} inputs and the biases")
        rows = weight[in_layer].reshape(width + 1, units)
        layers.append((rows[:-1], rows[-1]))
        width = units
    if width != TURN_CODES:
        raise ValueError(f"the last layer of a policy has units: {width}, not one for each of {TURN_CODES} actions")
    return layers
