"""Every setting Tidelog knows, declared once: name, type, default, limits, scope and meaning."""
