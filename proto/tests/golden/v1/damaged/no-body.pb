
e-1acme