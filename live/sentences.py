"""The sentences that the recorded data of the chapters are measured on."""

SENTENCE = "The CEO announced record earnings on Friday"

# Ordinary sentences, over which the patterns that any text shows are measured.
SENTENCES = [
    SENTENCE,
    "Rain fell all night, so we stayed indoors",
    "Our neighbour grows tomatoes behind his garage",
    "She left two letters under an old clock",
    "When does your train leave for Lisbon?",
    "Most birds fly south once winter comes near",
    "Please close that window and lock both doors",
    "Seven students solved every exercise yesterday evening",
]
