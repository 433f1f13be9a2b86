"""What the confidence heads know before they have seen anything."""

FIRST_WEIGHTS = {
    "prediction": (2.0,) + (0.0,) * 13,
    "repetition": (-1.5, 0.5) + (0.0,) * 11 + (0.5,),
    "past_outputs": (-1.0, 0.5) + (0.0,) * 12,
    "markov": (-2.0, 0.0, 3.0) + (0.0,) * 11,
}
