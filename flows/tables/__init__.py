"""Tables: what is declared of them, how columns and cells are read, and what is wrong with them."""
