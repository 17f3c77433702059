"""Counts: what is the rate of each group, and how much do rates differ?"""
