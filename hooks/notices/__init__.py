"""A provider's word that this host will go away: who says it, and how to listen."""
