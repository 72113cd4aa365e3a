"""What people look at: modules for the browser, and the pages made of them."""
