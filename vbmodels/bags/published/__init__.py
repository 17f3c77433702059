"""vMMIC and MIL-GP-Probit as their papers print them, with their samplers and rivals."""
