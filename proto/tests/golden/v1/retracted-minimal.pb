
e-10acmeÂ" 
inbox:billing@supplier.example