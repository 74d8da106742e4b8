"""Video operators of pipeplug. There are none yet: the distribution holds the name and the place."""
