"""What is asked of data: the rule catalog, contract and family files, and the row rules compiled to pandera."""
