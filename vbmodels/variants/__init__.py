"""Variants from base counts of case and control replicates: two groups, RVD2, their rivals.

- Two groups whose null lets samples differ as batches do, the default:
  `two_groups/batch_null.py`, on the two groups of `two_groups/model.py`. No published source.
- Panel of controls of other people: `panel/model.py`. No published source.
- RVD2 (He, Zhang and Flaherty 2015; Zhang and Flaherty 2017): `rvd2/model.py`; exact sampler:
  `rvd2/gibbs.py`; the test by posterior difference: `rvd2/posterior_difference.py`.
"""
