"""Topics: what are these documents about, and how much of each topic has every one?"""
