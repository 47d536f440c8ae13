"""Text and tokens of a target model."""
