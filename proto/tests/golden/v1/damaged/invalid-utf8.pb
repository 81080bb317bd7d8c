
e-1acmeª
n-1s-1"
heÿlo