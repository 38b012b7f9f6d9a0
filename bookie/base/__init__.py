"""Words everybody shares: identifiers, errors, units, bounded containers. Imports nothing of the product."""
