"""Columns of data frames and tables: what they mean, and how they become numbers.

`Coding` turns a table into inputs X, the same way for every new table; `Decider` finds it from the data of a fit. The
estimators use it for data frames, `cavity.tables` for files.
"""
