"""Logistic: how do numbers tell of a yes or no, and how sure is each of them?"""
