"""Wrong answers to the rotary chapter that its list of misconceptions does not hold in these words."""

import math

import torch

UNSEEN = {}
