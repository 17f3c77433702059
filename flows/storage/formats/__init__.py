"""Files as tables: Parquet, text, workbooks, arrays and documents."""
