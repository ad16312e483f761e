package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/longwire/longwire/bench/internal/stats"
)

const (
	plotWidth  = 16 * vg.Centimeter
	plotHeight = 8 * vg.Centimeter
)

// drawRates draws a bar for what each library brings into a page in a second.
func (b *bench) drawRates(t *table) error {
	if b.plots == "" {
		return nil
	}
	p := plot.New()
	p.Title.Text = "Events a second into one page, at saturation"
	p.X.Min = 0
	p.X.Tick.Marker = thousands{}
	var names []string
	for i, w := range slices.Backward(t.ways) {
		bar, err := plotter.NewBarChart(plotter.Values{stats.Median(t.row(perSecond, w.name).values)}, vg.Points(18))
		if err != nil {
			return err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width = true, float64(len(t.ways)-1-i), 0
		bar.Color = colorOf(i)
		p.Add(bar)
		names = append(names, w.name)
	}
	p.NominalY(names...)
	p.X.Max *= 1.05
	return b.save(p, "rates")
}

// drawRestart draws how many clients are live again, over time.
func (b *bench) drawRestart(ways []way, waits map[string][]float64) error {
	if b.plots == "" {
		return nil
	}
	p := plot.New()
	p.Title.Text = "Clients that are live again after their server was killed"
	p.X.Label.Text = "seconds since the server is up"
	p.Y.Label.Text = "% of the clients"
	p.Y.Min, p.Y.Max, p.X.Min = 0, 100, 0
	p.Legend.Top, p.Legend.Left = false, false
	for i, w := range ways {
		all := slices.Sorted(slices.Values(waits[w.name]))
		points := plotter.XYs{{}}
		for n, wait := range all {
			points = append(points, plotter.XY{X: wait, Y: 100 * float64(n+1) / float64(len(all))})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.StepStyle, line.Color, line.Width = plotter.PostStep, colorOf(i), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(w.name, line)
	}
	return b.save(p, "restart")
}

// save writes a picture that is sharp on screens of twice the points, too.
func (b *bench) save(p *plot.Plot, name string) error {
	p.Title.Padding = vg.Millimeter * 3
	c := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(144))
	const edge = 3 * vg.Millimeter
	p.Draw(draw.Crop(draw.New(c), edge, -edge, edge, -edge))
	file, err := os.Create(filepath.Join(b.plots, name+".png"))
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: c}.WriteTo(file)
	return errors.Join(err, file.Close())
}

func colorOf(i int) color.Color { return plotutil.Color(i) }

// thousands marks an axis in steps that are read at a glance.
type thousands struct{}

// Ticks implements plot.Ticker.
func (thousands) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = fmt.Sprintf("%.0f k", ticks[i].Value/1e3)
		}
	}
	return ticks
}
