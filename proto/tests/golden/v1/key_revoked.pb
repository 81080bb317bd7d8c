
e-22recant.controlê"
gatewaythe host was taken over