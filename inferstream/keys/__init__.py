"""Keys: who calls, with which rights and limits, and what they have used."""
