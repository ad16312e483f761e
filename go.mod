module github.com/longwire/longwire

go 1.26
