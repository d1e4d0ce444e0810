"""The players of milad818 and msdkarimi with the weights that their main.py loads; clone.sh copies this beside it."""

import numpy

import quarto


def load_weights(path):
    return numpy.load(path, allow_pickle=True).item()


class Milad(quarto.Player):
    def __init__(self, game):
        super().__init__(game, False)
        self.pieceWeightDict = load_weights("finalPieceWeight4.npy")
        self.placeWeightDict = load_weights("finalPlaceWeight4.npy")


class Msdkarimi(quarto.Player):
    def __init__(self, game):
        super().__init__(game, False)
        self.gainPiece = load_weights("weightOfPieceFinal.npy")
        self.gainPlace = load_weights("weightOfPlaceFinal.npy")
