"""How certain a fit is: bootstrap replicates, the posterior with its prior, and the between-seed spread."""
