"""The selection methods: their options, states and scores."""
