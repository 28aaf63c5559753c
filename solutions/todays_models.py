"""The capstone on today's models has no exercise: its page wires the answers of earlier chapters together."""
