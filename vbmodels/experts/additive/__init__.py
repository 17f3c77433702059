"""The default for rows: an additive logistic model, and a mixture where it predicts better."""
