"""Sources of models and repositories, which join by the scheme of a URI. No module of the core imports them."""
