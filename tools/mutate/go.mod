module github.com/signalbox-go/signalbox/tools/mutate

go 1.25.0
