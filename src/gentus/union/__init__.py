"""Tables under one another: plan which column goes where, bring values to one type, write the rows."""
