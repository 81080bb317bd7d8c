
e-20recant.controlÒ