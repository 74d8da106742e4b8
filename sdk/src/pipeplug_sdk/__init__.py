"""What plugin authors start from and test with. There is nothing yet: the distribution holds the name and the place."""
