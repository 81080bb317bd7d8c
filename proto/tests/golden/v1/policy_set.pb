
e-19recant.control ,
$permit(principal, action, resource);dana