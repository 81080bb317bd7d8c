
e-05acmeª*
o-page https://supplier.example/contact